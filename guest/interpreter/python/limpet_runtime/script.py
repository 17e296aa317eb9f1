"""The end of a call that nothing follows, and of a session: as Python ends after the last line of a script."""

import sys

from limpet_runtime import aio


def end():
    """Waits for threads that are no daemons, and calls what atexit has. An interrupt ends the waiting alone."""
    import atexit

    threading = sys.modules.get("threading")
    try:
        aio.end()
        if threading is not None:
            threading._shutdown()
    finally:
        atexit._run_exitfuncs()


def end_session():
    """Likewise for a session, which waits for no thread and no process: one may never end, and holds up nobody."""
    import atexit

    try:
        aio.end()
    finally:
        leave_processes()
        atexit._run_exitfuncs()
        flush_all()


def leave_processes():
    """Has the exit function of multiprocessing terminate all processes, as it does daemons, before it joins them."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    for process in list(getattr(multiprocessing, "_children", ())):
        process._config["daemon"] = True


def close(namespace):
    """Lets go of the variables, in the order in which Python does. Files are flushed before, as a collection closes
    those of a cycle in any order, and after, as finalizers may write."""
    import gc

    flush_all()
    names = [name for name in namespace if not name.startswith("__")]
    for name in sorted(names, key=lambda name: not name.startswith("_")):
        namespace[name] = None
    gc.collect()
    flush_all()


def flush_all():
    """Of a file the text first, then the bytes."""
    import gc
    import io

    for layer in (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom):
        for file in gc.get_objects():
            if issubclass(type(file), layer):
                flush(file)


def flush(file):
    try:
        if not file.closed:
            file.flush()
    except Exception:
        pass  # as where Python itself closes it
