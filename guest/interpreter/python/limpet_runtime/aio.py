"""Top-level await: one event loop for the session, which runs while a cell awaits, and between cells."""

import _signal
import sys

import _limpet

CO_COROUTINE = 0x80

_loop = None
_process = 0  # whose that is: a child of the interpreter's has one of its own


def session_loop():
    global _loop, _process
    import asyncio

    if _loop is None or _loop.is_closed() or _process != _limpet.forked():
        _loop, _process = asyncio.new_event_loop(), _limpet.forked()
        _limpet.rest_by(rest)
    return _loop


def adapt_asyncio(asyncio):
    """The loop of cells is that of the main thread also where none runs: for asyncio.get_event_loop(), unless another one
    was set, and for tasks of a cell without `await`. Functions that tell whether a loop runs tell the truth, since
    libraries ask them whether they may run one."""
    import threading

    events, original = asyncio.events, asyncio.create_task
    policy = getattr(events, "_BaseDefaultEventLoopPolicy", None) or events.BaseDefaultEventLoopPolicy
    get_event_loop = policy.get_event_loop

    def is_main():
        return threading.current_thread() is threading.main_thread()

    def get_loop(self):
        if is_main() and self._local._loop in (None, _loop):
            self.set_event_loop(session_loop())
        return get_event_loop(self)

    def create_task(coro, **options):
        if events._get_running_loop() is None and is_main():
            return session_loop().create_task(coro, **options)
        return original(coro, **options)

    create_task.__doc__ = original.__doc__
    policy.get_event_loop = get_loop
    asyncio.create_task = asyncio.tasks.create_task = create_task


def has_work():
    """Whether anything is left to the loop. Its own pipe, by which threads wake it, is no work."""
    import asyncio

    files = getattr(_loop, "_selector", None)
    waiting = getattr(_loop, "_ready", None) or getattr(_loop, "_scheduled", None) or asyncio.all_tasks(_loop)
    return bool(waiting) or (files is not None and len(files.get_map()) > 1)


def rest(channel):
    """Between two cells: runs the loop until a message comes by the channel, where there is anything to run."""
    if _loop is None or _loop.is_closed() or not has_work():
        return
    import select

    poll = select.poll()
    poll.register(channel, select.POLLIN)

    def interrupt(number, frame):
        if poll.poll(0):  # for the sake of a cell that waits
            raise KeyboardInterrupt

    previous = _signal.signal(_signal.SIGINT, interrupt)
    _loop.add_reader(channel, _loop.stop)
    try:
        while not poll.poll(0):
            run_forever()
    finally:
        _loop.remove_reader(channel)
        _signal.signal(_signal.SIGINT, previous)


def run_forever():
    """What a task ends the loop with is told, and the others go on."""
    try:
        _loop.run_forever()
    except BaseException as error:
        from limpet_runtime import errors

        print(errors.describe(error)[2], end="", file=sys.stderr)


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


def run(head, tail, namespace, context=None):
    """Runs a cell of which at least one half awaits, and returns the value of its tail. In a copy of the current context
    where none is given.

    An interrupt that finds a task running Python is raised right there; one that finds the loop waiting
    cancels the cell, since an exception inside the loop's own code could leave it unusable. A second one is
    raised wherever it is.
    """
    import asyncio

    loop = session_loop()
    cell = loop.create_task(run_both(head, tail, namespace), context=context)
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
