"""Commands of the shell."""

import os
import shlex
import subprocess
import sys

from limpet_magics.options import UsageError, words


def run(command, kept=(), **how):
    """The ended process. What it prints comes at once, unless it is kept, or goes where sys.stdout has been sent."""
    sys.stdout.flush()
    redirected = sys.stdout is not sys.__stdout__, sys.stderr is not sys.__stderr__
    pipes = [subprocess.PIPE if name in kept or moved else None for name, moved in zip(("out", "err"), redirected)]
    done = subprocess.run(command, stdout=pipes[0], stderr=pipes[1], text=True, errors="replace", **how)
    if redirected[0] and "out" not in kept:
        sys.stdout.write(done.stdout)
    if redirected[1] and "err" not in kept:
        sys.stderr.write(done.stderr)
    return done


def system(frame, command):
    frame.f_globals["_exit_code"] = run(command, shell=True).returncode


def output_of(command):
    return subprocess.getoutput(command).splitlines()


def alias(name):
    """``%ls`` for ``!ls``."""
    return lambda frame, text: system(frame, f"{name} {text}")


def pip(frame, text):
    """Ours, whichever pip comes first in PATH."""
    place = os.path.join(os.path.dirname(os.path.dirname(__file__)), "limpet_pip")
    system(frame, f"{shlex.quote(sys.executable)} -s {shlex.quote(place)} {text}")


def script(shell):
    """``%%bash``. A script that fails raises CalledProcessError, as it does in IPython."""

    def magic(frame, text, body):
        options, operands = words(text, long=["out=", "err=", "no-raise-error"])
        if operands:
            raise UsageError(f"%%{shell} takes no {operands[0]!r}")
        kept = {name: options[name] for name in ("out", "err") if name in options}
        done = run([shell], kept, input=body)
        for name, variable in kept.items():
            frame.f_globals[variable] = getattr(done, f"std{name}")
        if done.returncode and "no-raise-error" not in options:
            raise subprocess.CalledProcessError(done.returncode, f"%%{shell}")

    return magic
