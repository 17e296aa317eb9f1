"""What pages make is shown, and lands in /session/artifacts: screenshots, PDFs, downloads."""

import asyncio
import functools
import os

ARTIFACTS = "/session/artifacts"

_adapted = set()
_used = {}  # numbers of files, by what comes before and behind: the largest that was given
_saving = 0  # downloads on their way to the artifacts


class Shown(bytes):
    """The bytes of a picture or document that was shown: they are not told once more."""

    def __repr__(self):
        return f"<{self.what}, {len(self)} bytes, {self.path}>"

    __str__ = __repr__


def free_path(stem, suffix):
    """Of a file that is not there: stem.suffix, stem-1.suffix …"""
    os.makedirs(ARTIFACTS, exist_ok=True)
    number = _used.get((stem, suffix), -1) + 1
    while True:
        path = os.path.join(ARTIFACTS, f"{stem}-{number}{suffix}" if number else stem + suffix)
        if not os.path.lexists(path):
            _used[stem, suffix] = number
            return path
        number += 1


def show(what, data, path):
    from limpet_runtime import display

    kind = "application/pdf" if what == "PDF" else "image/jpeg" if data[:2] == b"\xff\xd8" else "image/png"
    if path is None:
        suffix = {"application/pdf": ".pdf", "image/jpeg": ".jpg"}.get(kind, ".png")
        path = free_path("page" if what == "PDF" else "screenshot", suffix)
        with open(path, "wb") as file:
            file.write(data)
    shown = Shown(data)
    shown.what, shown.path = what, os.fspath(path)
    display.send({"text/plain": repr(shown), kind: bytes(data)}, {})
    return shown


def showing(what, make):
    @functools.wraps(make)
    def wrapper(self, *args, path=None, **options):
        return show(what, make(self, *args, path=path, **options), path)

    return wrapper


def showing_async(what, make):
    @functools.wraps(make)
    async def wrapper(self, *args, path=None, **options):
        return show(what, await make(self, *args, path=path, **options), path)

    return wrapper


def adapt_classes(module, wrap):
    if module in _adapted:
        return
    for kind in (module.Page, module.Locator, module.ElementHandle):
        kind.screenshot = wrap("screenshot", kind.screenshot)
    module.Page.pdf = wrap("PDF", module.Page.pdf)
    _adapted.add(module)


def adapt(module):
    if module not in _adapted:
        wait_with_downloads(module)
    adapt_classes(module, showing)


def adapt_async(module):
    adapt_classes(module, showing_async)


def path_for(download):
    stem, suffix = os.path.splitext(os.path.basename(download.suggested_filename))
    return free_path(stem or "download", suffix)


def tell_saved(path):
    from limpet_runtime import display

    display.send({"text/plain": f"<download, {os.path.getsize(path)} bytes, {path}>"}, {})


def watch_downloads(browser):
    def save(download):
        global _saving
        _saving += 1
        try:
            path = path_for(download)
            download.save_as(path)
            tell_saved(path)
        finally:
            _saving -= 1

    for context in browser.contexts:
        watch_pages(context, save)


def watch_downloads_async(browser):
    async def save(download):
        path = path_for(download)
        await download.save_as(path)
        tell_saved(path)

    for context in browser.contexts:
        watch_pages(context, save)


def watch_pages(context, save):
    def watch(page):
        page.on("download", save)

    for page in context.pages:
        watch(page)
    context.on("page", watch)


def wait_with_downloads(module):
    """Whoever waits for a download has it in the artifacts, too, when that is over."""
    from playwright._impl import _sync_base

    leave = _sync_base.EventContextManager.__exit__

    def leave_with_downloads(self, *error):
        leave(self, *error)
        base = self._event._sync_base
        while _saving and not base._dispatcher_fiber.dead:
            base._sync(asyncio.sleep(0.005))

    _sync_base.EventContextManager.__exit__ = leave_with_downloads
