"""The part of the driver of Pyodide that runs inside: cells, one after the other. The value of this source is a function
of what takes answers, which gives what runs cells."""

import asyncio
import base64
import builtins
import json
import linecache
import sys
import time
import traceback

from pyodide.code import eval_code_async

FORMS = {
    "text/html": "_repr_html_",
    "text/markdown": "_repr_markdown_",
    "text/latex": "_repr_latex_",
    "image/svg+xml": "_repr_svg_",
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
}


PIECE = 0.05  # seconds


def form(value, method):
    try:
        made = getattr(value, method)()
    except Exception:
        return None
    return base64.b64encode(made).decode() if isinstance(made, bytes) else made


def forms(value):
    """What there is besides its text; empty: nothing."""
    if isinstance(value, type):
        return {}
    made = {kind: form(value, method) for kind, method in FORMS.items() if hasattr(value, method)}
    return {kind: text for kind, text in made.items() if isinstance(text, str)}


def sleep(seconds, pause=time.sleep):
    """In pieces: an interrupt is noticed between two of them."""
    pause(seconds if seconds < 0 else 0)
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        pause(min(left, PIECE))


def is_of_cell(frame):
    return frame.filename.startswith("<cell ")


def described(error):
    kept = [frame for frame in traceback.extract_tb(error.__traceback__) if is_of_cell(frame)]
    head = "Traceback (most recent call last):\n" if kept else ""
    text = head + "".join(traceback.format_list(kept)) + "".join(traceback.format_exception_only(error))
    return [type(error).__name__, str(error), text]


class Cells:
    def __init__(self, answer):
        self.answer = lambda **said: answer(json.dumps(said))
        self.names = {"__name__": "__main__", "__builtins__": builtins}
        self.task = None
        builtins.display = self.display
        time.sleep = sleep

    def display(self, *values):
        for value in values:
            self.answer(display={"text/plain": repr(value), **forms(value)})

    async def value_of(self, code, name):
        linecache.cache[name] = len(code), None, code.splitlines(True), name
        return await eval_code_async(code, self.names, filename=name)

    async def run(self, code, number):
        try:
            value = await self.value_of(code, f"<cell {number}>")
            said = {"result": None} if value is None else {"result": repr(value), "data": forms(value)}
        except asyncio.CancelledError:
            said = {"error": ["KeyboardInterrupt", "", "KeyboardInterrupt\n"]}
        except BaseException as error:
            said = {"error": described(error)}
        sys.stdout.flush()
        sys.stderr.flush()
        self.task = None
        self.answer(**said)

    def cell(self, code, number):
        self.task = asyncio.ensure_future(self.run(code, number))

    def cancel(self):
        if self.task is not None:
            self.task.cancel()


Cells
