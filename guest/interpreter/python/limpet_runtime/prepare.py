"""What an interpreter does before its first cell: gets its environment, imports what cells will, takes its place."""

import gc
import os
import sys
import time

from limpet_runtime import errors, figures, library


def set_environment(env):
    """Of Python. The C side has emptied that of the process."""
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    figures.adopt_environment()


def import_all(names):
    failed = []
    for name in names:
        try:
            __import__(name)
        except BaseException as error:
            failed.append(f"{name}: {type(error).__name__}: {errors.text_of(error)}")
    return failed


def move(cwd):
    """Notes of what could not be done."""
    try:
        os.chdir(cwd)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return [f"cwd: cannot begin in {cwd!r}: {reason}"]
    return []


def speak(language):
    """Notes of what could not be done."""
    with library.Library():
        import limpet_languages

        try:
            limpet_languages.take_up(language)
        except limpet_languages.Unknown as error:
            return [str(error)]
    return []


def prepare(env, added, imports, language, cwd):
    """Notes of what could not be done. With `imports`, if only an empty list, nobody waits for it yet."""
    if env is not None:
        set_environment(env)
    for name, value in (added or {}).items():
        os.environ.setdefault(name, value)
    failed = move(cwd) if cwd is not None else []
    if language is not None:
        failed += speak(language)
    if imports is None:
        return failed
    from limpet_runtime import warmup

    argv = list(sys.argv)
    failed += import_all(imports)
    warmup.use_all()
    sys.argv = argv
    # Collections after a fork would write to, and so copy, every object there is.
    gc.collect()
    gc.freeze()
    return failed
