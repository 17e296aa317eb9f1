"""Top-level await: one event loop for the session, which runs while a cell awaits."""

import _signal

CO_COROUTINE = 0x80

_loop = None


def session_loop():
    global _loop
    import asyncio

    if _loop is None or _loop.is_closed():
        _loop = asyncio.new_event_loop()
    return _loop


def end():
    """Ends what was left to the loop, as asyncio.run() does."""
    if _loop is None or _loop.is_closed():
        return
    import asyncio

    tasks = asyncio.all_tasks(_loop)
    for task in tasks:
        task.cancel()
    if tasks:
        _loop.run_until_complete(asyncio.wait(tasks))
    _loop.run_until_complete(_loop.shutdown_asyncgens())
    _loop.close()


async def run_both(head, tail, namespace):
    value = None
    for code in head, tail:
        if code is not None:
            value = eval(code, namespace)
            if code.co_flags & CO_COROUTINE:
                value = await value
    return None if tail is None else value


def run(head, tail, namespace):
    """Runs a cell of which at least one half awaits, and returns the value of its tail.

    An interrupt that finds a task running Python is raised right there; one that finds the loop waiting
    cancels the cell, since an exception inside the loop's own code could leave it unusable. A second one is
    raised wherever it is.
    """
    import asyncio

    loop = session_loop()
    cell = loop.create_task(run_both(head, tail, namespace))
    interrupted = False

    def interrupt(number, frame):
        nonlocal interrupted
        if interrupted or asyncio.current_task(loop) is not None:
            raise KeyboardInterrupt
        interrupted = True
        cell.cancel()
        loop.call_soon_threadsafe(lambda: None)

    previous = _signal.signal(_signal.SIGINT, interrupt)
    try:
        return loop.run_until_complete(cell)
    except asyncio.CancelledError as cancelled:
        if not interrupted:
            raise
        raise KeyboardInterrupt().with_traceback(cancelled.__traceback__) from None
    except BaseException:
        cancel(loop, cell)
        raise
    finally:
        _signal.signal(_signal.SIGINT, previous)


def cancel(loop, cell):
    """Ends a cell that an exception in another task, such as an interrupt, has left half done."""
    if not cell.done():
        cell.cancel()
        loop.run_until_complete(wait(cell))


async def wait(task):
    import asyncio

    await asyncio.wait([task])
