"""Playwright beside cells. Its synchronous objects leave their event loop marked as the running one, so that no other
code could run one: here it is marked while they wait, and no longer. And those of a process of which this is a copy say
what to do, where they would wait for nobody."""

import asyncio
import functools
import inspect
import logging
import os

GONE = "the connection to the browser was not brought back with Python: call limpet_browser.page() again"

_adapted = False


def mark(loop):
    """It belongs to a connection of this process."""
    loop._limpet_process = os.getpid()


def is_of_a_copy(loop):
    process = getattr(loop, "_limpet_process", None)
    return process is not None and process != os.getpid()


def refuse(future):
    from playwright._impl._errors import Error

    future._log_destroy_pending = False
    if isinstance(future, asyncio.Task):
        future.get_coro().close()
    raise Error(GONE)


class Running:
    """In its `with` that loop is the running one."""

    def __init__(self, loop):
        self.loop = loop

    def __enter__(self):
        self.before = asyncio._get_running_loop()
        asyncio._set_running_loop(self.loop)

    def __exit__(self, *unused):
        asyncio._set_running_loop(self.before)


def running(method):
    """Also where it only prepares something, Playwright counts on a loop that runs."""

    @functools.wraps(method)
    def wrapper(self, *args, **options):
        with Running(self._loop):
            return method(self, *args, **options)

    return wrapper


def adapt_methods(module, base):
    for kind in vars(module).values():
        if isinstance(kind, type) and issubclass(kind, base):
            for name, method in list(vars(kind).items()):
                if inspect.isfunction(method) and not name.startswith("_"):
                    setattr(kind, name, running(method))


def adapt():
    global _adapted
    if _adapted:
        return
    from playwright._impl import _greenlets, _sync_base
    from playwright.sync_api import _generated

    wait = _greenlets.wait_for_future
    enter = _sync_base.EventContextManager.__enter__

    def wait_for_future(loop, dispatcher_fiber, future):
        __tracebackhide__ = True
        if is_of_a_copy(loop):
            refuse(future)
        with Running(loop):
            wait(loop, dispatcher_fiber, future)

    def enter_running(self):
        with Running(self._event._sync_base._loop):
            return enter(self)

    _greenlets.wait_for_future = _sync_base.wait_for_future = wait_for_future
    _sync_base.EventContextManager.__enter__ = enter_running
    adapt_methods(_generated, _sync_base.SyncBase)
    adapt_methods(_sync_base, _sync_base.SyncBase)
    _adapted = True


class PastDrivers(logging.Filter):
    """Keeps asyncio from telling that the driver of a process of which this is a copy has ended: everybody knows."""

    def __init__(self):
        super().__init__()
        self.processes = set()

    def filter(self, record):
        return not (record.args and isinstance(record.args, tuple) and record.args[0] in self.processes)


past_drivers = PastDrivers()
logging.getLogger("asyncio").addFilter(past_drivers)


def catch_up(browser):
    """What the driver has said since the last call is taken in, such as that the browser has ended."""
    try:
        browser._sync(asyncio.sleep(0.001))
    except Exception:
        pass  # its driver has ended
