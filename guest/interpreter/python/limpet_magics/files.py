"""The directory, the environment, and files."""

import os
import re

from limpet_magics.options import UsageError, one, words

before = None  # the directory before the last %cd, for `%cd -`


def cd(frame, text):
    """Goes to a directory and says where that is; ``-`` is the one before, nothing is home."""
    global before
    options, operands = words(text, "q")
    wanted = one(operands or ["~"], "one directory")
    if wanted == "-":
        if before is None:
            raise UsageError("%cd -: there is no directory before this one")
        wanted = before
    here = os.getcwd()
    os.chdir(os.path.expanduser(wanted))
    before = here
    if "q" not in options:
        print(os.getcwd())


def pwd(frame, text):
    return os.getcwd()


def env(frame, text):
    """All of the environment, one variable, or a variable that is given a value: ``NAME=VALUE`` or ``NAME VALUE``."""
    if not text:
        return dict(os.environ)
    name, sign, value = re.fullmatch(r"([^\s=]+)(\s*=\s*|\s+|)(.*)", text, re.DOTALL).groups()
    if sign:
        os.environ[name] = value
        print(f"env: {name}={value}")
        return None
    if name not in os.environ:
        raise UsageError(f"%env: there is no variable {name}")
    return os.environ[name]


def write(frame, text, body):
    options, operands = words(text, "a", ["append"])
    path = os.path.expanduser(one(operands, "the name of one file"))
    appends = bool(options)
    does = "Appending to" if appends else "Overwriting" if os.path.exists(path) else "Writing"
    print(does, path)
    with open(path, "a" if appends else "w", encoding="utf-8") as file:
        file.write(body)
