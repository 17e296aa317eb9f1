"""The commands that need no IPython: those of the shell, and ``%time`` and ``%%time``: unlike IPython's they may await,
and their errors show the lines of the cell.
"""

import getopt
import os
import resource
import shlex
import subprocess
import sys
import time

from limpet_magics import code

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
LONG_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
INLINE = {"", "agg", "inline"}  # backends of matplotlib as which figures are shown anyway


class UsageError(Exception):
    """A command is not there, or was written in a way that it does not know."""


def note(text):
    print(f"limpet: {text}", file=sys.stderr)


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


def system(command):
    code.caller().f_globals["_exit_code"] = run(command, shell=True).returncode


def output_of(command, split=True):
    text = subprocess.getoutput(command)
    return text.splitlines() if split else text


def alias(name):
    """``%ls`` for ``!ls``."""
    return lambda text: system(f"{name} {text}")


def pip(text):
    """Runs ours, whichever pip comes first in PATH."""
    place = os.path.join(os.path.dirname(os.path.dirname(__file__)), "limpet_pip")
    system(f"{shlex.quote(sys.executable)} -s {shlex.quote(place)} {text}")


def script(shell):
    """``%%bash``. A script that fails raises CalledProcessError, as it does in IPython."""

    def magic(text, body):
        try:
            pairs, operands = getopt.gnu_getopt(shlex.split(text), "", ["out=", "err=", "no-raise-error"])
        except (getopt.GetoptError, ValueError) as error:
            raise UsageError(f"%%{shell}: {error}") from None
        if operands:
            raise UsageError(f"%%{shell} takes no {operands[0]!r}")
        options = {name.lstrip("-"): value for name, value in pairs}
        kept = {name: options[name] for name in ("out", "err") if name in options}
        done = run([shell], kept, input=body)
        for name, variable in kept.items():
            code.caller().f_globals[variable] = getattr(done, f"std{name}")
        if done.returncode and "no-raise-error" not in options:
            raise subprocess.CalledProcessError(done.returncode, f"%%{shell}")

    return magic


def matplotlib(text):
    if text.strip() not in INLINE:
        note(f"%matplotlib {text} is ignored: figures are shown as pictures")


def duration(seconds):
    """In a unit that suits it: ``1.23 µs``, ``2min 5s``."""
    if seconds >= 60:
        return " ".join(long_parts(int(seconds)))
    size, unit = next((pair for pair in UNITS if seconds >= pair[0]), UNITS[-1])
    return f"{seconds / size:.3g} {unit}"


def long_parts(seconds):
    for size, unit in LONG_UNITS:
        count, seconds = divmod(seconds, size)
        if count:
            yield f"{count}{unit}"


def clocks():
    """Seconds so far: on the wall, of the processor in Python and its children, and of the system for them."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.perf_counter(), sum(each.ru_utime for each in usages), sum(each.ru_stime for each in usages)


class Clock:
    """Tells how long its `with` took, however that ended."""

    def __enter__(self):
        self.begin = clocks()

    def __exit__(self, *unused):
        wall, user, system = (now - before for now, before in zip(clocks(), self.begin))
        print(f"CPU times: user {duration(user)}, sys: {duration(system)}, total: {duration(user + system)}")
        print(f"Wall time: {duration(wall)}")


def time_line(text):
    with Clock():
        return code.run(code.caller(), text, "<%time>")


def time_cell(text, body):
    if text.strip():
        raise UsageError("%%time takes nothing in its own line; %time has its statement there")
    with Clock():
        return code.run_below(code.caller(), body, "<%%time>")


LINE = {
    "matplotlib": matplotlib,
    "pip": pip,
    "time": time_line,
    **{name: alias(name) for name in ("cat", "cp", "ls", "mkdir", "mv", "rm", "rmdir")},
}
CELL = {"bash": script("bash"), "sh": script("sh"), "time": time_cell}
PYTHON = {time_line, time_cell}  # whose text is code: braces and dollars are its own
