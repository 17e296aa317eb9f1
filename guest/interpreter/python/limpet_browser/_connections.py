"""The browser, which the supervisor starts when it is asked for, and the connections to it: one for synchronous and one for
asynchronous code, each made when it is needed.

A connection is a program beside Python (Playwright's driver) and pipes to it. A copy of this process, which is what
is left after a crash or a rollback, has neither: it makes a connection of its own, and finds the pages as they are.
"""

import asyncio
import glob
import os
import socket
import time
import urllib.parse

from limpet_browser import _adapting, _showing

SOCKET = os.environ.get("LIMPET_BROWSER_SOCKET", "/run/limpet-browser")
PORT = 9222  # where the browser is controlled, on the loopback of the container
PATIENCE = 120  # seconds; the supervisor gives up earlier
DYING = 10  # seconds at most between the end of a browser's port and that of its process, which the supervisor sees
PAUSE = 0.02  # seconds
ARTIFACTS = "/tmp/playwright-artifacts-*"  # where drivers have downloads put

_sync = _async = None
_past = []  # connections that are of no use, of which some belong to processes that this is a copy of: nothing ends them
_target = None  # of the page that page() gives


class BrowserError(Exception):
    """The session has no browser, or it does not start; the message says why."""


def asked():
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(PATIENCE)
        try:
            connection.connect(SOCKET)
        except OSError as error:
            raise BrowserError(
                f"this session has no browser ({error.strerror}): open one with an engine of containers, and an image "
                "built by `limpet image build --with browser`"
            ) from None
        with connection.makefile("r", encoding="ascii", errors="replace") as answer:
            return answer.readline()


def address_of_one_that_runs():
    word, _, rest = asked().strip().partition(" ")
    if word != "at":
        raise BrowserError(f"there is no browser: {rest or 'the session ends'}")
    return rest


def is_listened_at(address):
    place = urllib.parse.urlsplit(address)
    try:
        socket.create_connection((place.hostname, place.port), timeout=PATIENCE).close()
    except ConnectionRefusedError:
        return False
    return True


def endpoint():
    """The address at which the browser is controlled (Chrome DevTools Protocol). Starts the browser.

    One that has crashed stays the supervisor's until its process has ended, which is after its port: asked again.
    """
    end = time.monotonic() + DYING
    while not is_listened_at(address := address_of_one_that_runs()):
        if time.monotonic() > end:
            raise BrowserError(f"the browser runs, but does not listen at {address}")
        time.sleep(PAUSE)
    return address


class Connection:
    def __init__(self, playwright, browser):
        self.playwright, self.browser, self.loop = playwright, browser, browser._loop
        _adapting.mark(self.loop)

    def is_alive(self):
        return not _adapting.is_of_a_copy(self.loop) and not self.loop.is_closed() and self.browser.is_connected()


def playwright_module(name):
    try:
        return __import__(f"playwright.{name}", fromlist=["*"])
    except ModuleNotFoundError as error:
        raise BrowserError(
            f"this image has no browser ({error}): build one with `limpet image build --with browser`"
        ) from None


def admit_browser():
    """The browser is another user, and writes what it downloads where the driver says."""
    for path in glob.glob(ARTIFACTS):
        try:
            os.chmod(path, 0o777)
        except OSError:
            pass  # of one that has gone meanwhile


def connect():
    module = playwright_module("sync_api")
    _adapting.adapt()
    _showing.adapt(module)
    address = endpoint()
    playwright = module.sync_playwright().start()
    asyncio._set_running_loop(None)
    try:
        browser = playwright.chromium.connect_over_cdp(address)
    except BaseException:
        playwright.stop()
        raise
    admit_browser()
    _showing.watch_downloads(browser)
    return Connection(playwright, browser)


async def connect_async():
    module = playwright_module("async_api")
    _showing.adapt_async(module)
    address = endpoint()
    manager = module.async_playwright()
    playwright = await manager.start()
    _adapting.past_drivers.processes.add(manager._client._transport._proc.pid)
    try:
        browser = await playwright.chromium.connect_over_cdp(address)
    except BaseException:
        await playwright.stop()
        raise
    admit_browser()
    _showing.watch_downloads_async(browser)
    return Connection(playwright, browser)


def browser():
    """Playwright's Browser, connected to the browser of the session, for synchronous code."""
    global _sync
    if _sync is not None and not _adapting.is_of_a_copy(_sync.loop):
        _adapting.catch_up(_sync.browser)
    if _sync is None or not _sync.is_alive():
        _past.append(_sync)
        _sync = None
        _sync = connect()
    return _sync.browser


async def async_browser():
    """Playwright's Browser, connected to the browser of the session, for code that awaits."""
    global _async
    if _async is None or not _async.is_alive() or _async.loop is not asyncio.get_running_loop():
        _past.append(_async)
        _async = None
        _async = await connect_async()
    return _async.browser


def page():
    """The page of the session: the same one each time, as long as it lives. A synchronous Page."""
    global _target
    context = browser().contexts[0]
    targets = [(target_of(context, page), page) for page in context.pages]
    if not targets:
        made = context.new_page()
        targets = [(target_of(context, made), made)]
    _target, chosen = choose(targets)
    return chosen


async def async_page():
    """As page(), for code that awaits: an asynchronous Page."""
    global _target
    context = (await async_browser()).contexts[0]
    targets = [(await async_target_of(context, page), page) for page in context.pages]
    if not targets:
        made = await context.new_page()
        targets = [(await async_target_of(context, made), made)]
    _target, chosen = choose(targets)
    return chosen


def choose(targets):
    return next((pair for pair in targets if pair[0] == _target), targets[0])


def target_of(context, page):
    session = context.new_cdp_session(page)
    try:
        return session.send("Target.getTargetInfo")["targetInfo"]["targetId"]
    finally:
        session.detach()


async def async_target_of(context, page):
    session = await context.new_cdp_session(page)
    try:
        return (await session.send("Target.getTargetInfo"))["targetInfo"]["targetId"]
    finally:
        await session.detach()
