"""How results show themselves to people: in a notebook of this process, and as text in a terminal.

HTML that code in a sandbox has made is shown in a frame without scripts: the page around it could otherwise be made to
run code in the kernel of the notebook.
"""

from __future__ import annotations

import base64
import html
import mimetypes
import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .results import Display, Image, Result

_HARMLESS = (
    "text/plain",
    "text/latex",
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "application/json",
)
_FRAME = '<iframe sandbox style="width:100%;height:24em;border:0" srcdoc="{}"></iframe>'
_TEXT = "<pre>{}</pre>"


def bundle(data: Mapping[str, Any]) -> dict[str, Any]:
    """The forms of a display that a notebook may show."""
    shown = {kind: value for kind, value in data.items() if kind in _HARMLESS or _is_chart(kind)}
    if "text/html" in data:
        shown["text/html"] = _framed(str(data["text/html"]))
    return shown


def result_bundle(result: Result) -> dict[str, Any]:
    """Of a whole result: text, displays in their order, the value and the traceback."""
    return {"text/plain": repr(result), "text/html": "\n".join(_parts(result))}


def show(result: Result) -> None:
    """Prints a result, with the paths of its pictures, which become temporary files."""
    for text in (result.stdout, result.stderr):
        if text:
            print(text, end="" if text.endswith("\n") else "\n")
    for display in result.displays:
        image = display.image
        if image is not None:
            print(_saved(image))
        elif not display.is_result and "text/plain" in display.data:
            print(display.data["text/plain"])
    if result.result is not None:
        print(_value(result))
    if result.error is not None:
        print(result.error.traceback.rstrip() or f"{result.error.name}: {result.error.message}")
    for note in filter(None, (result._late, result.warning)):
        print(f"limpet: {note}")


def _value(result: Result) -> str:
    """The text of the last value: a table keeps its lines, which repr() in one line does not."""
    for display in result.displays:
        if display.is_result and "text/plain" in display.data:
            return str(display.data["text/plain"])
    return str(result.result)


def _saved(image: Image) -> str:
    suffix = mimetypes.guess_extension(image.mime_type) or ""
    with tempfile.NamedTemporaryFile(prefix="limpet-figure-", suffix=suffix, delete=False) as file:
        file.write(image.data)
    return os.path.abspath(file.name)


def _parts(result: Result) -> Iterator[str]:
    for text in (result.stdout, result.stderr):
        if text:
            yield _TEXT.format(html.escape(text))
    for display in result.displays:
        yield _form(display)
    if result.result is not None and not any(display.is_result for display in result.displays):
        yield _TEXT.format(html.escape(result.result))
    if result.error is not None:
        told = result.error.traceback or f"{result.error.name}: {result.error.message}"
        yield _TEXT.format(html.escape(told))
    for note in filter(None, (result._late, result.warning)):
        yield f"<p><b>{html.escape(note)}</b></p>"


def _form(display: Display) -> str:
    image = display.image
    if image is not None:
        return f'<img src="data:{image.mime_type};base64,{base64.b64encode(image.data).decode()}">'
    if "text/html" in display.data:
        return _framed(str(display.data["text/html"]))
    return _TEXT.format(html.escape(str(display.data.get("text/plain", repr(display)))))


def _framed(text: str) -> str:
    return _FRAME.format(html.escape(text))


def _is_chart(kind: str) -> bool:
    """A description that the notebook's own renderer draws, such as Vega's and Plotly's."""
    return kind.startswith("application/vnd.") and kind.endswith("+json")
