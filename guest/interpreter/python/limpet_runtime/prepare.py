"""What an interpreter does before it has a session: gets its environment, and imports what cells will."""

import gc
import os
import sys
import time

from limpet_runtime import errors, figures


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


def prepare(env, imports):
    """Notes of what could not be imported. With `imports`, if only an empty list, nobody waits for it yet."""
    if env is not None:
        set_environment(env)
    if imports is None:
        return []
    from limpet_runtime import warmup

    argv = list(sys.argv)
    failed = import_all(imports)
    warmup.use_all()
    sys.argv = argv
    # Collections after a fork would write to, and so copy, every object there is.
    gc.collect()
    gc.freeze()
    return failed
