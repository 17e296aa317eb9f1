"""What a cell shows, as Jupyter has it, and harmless unless the user said otherwise.

A frontend such as JupyterLab runs the scripts of what a cell shows, with the rights of the user: enough to start
a kernel that is no sandbox. It also fetches the pictures that HTML and Markdown name, and so carries data out of
a session that has no network.
"""

from __future__ import annotations

import base64
import html
import math
import re
from typing import Any

import nh3

from ..results import Display
from . import _frame

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp")
WIDGET = "application/vnd.jupyter.widget-view+json"
NO_WIDGETS = "as the notebook does not know the widget: run the cell again that made it"
ANSWERS = "application/vnd.vscode.bg.execution."  # to VS Code's own code, which no frontend shows
HARMLESS = {"text/plain", "application/json", *PICTURES}
MARKUP = ("text/markdown", "text/latex")
EMBEDDED = re.compile(
    r"data:image/(png|jpeg|gif|webp|bmp|svg\+xml);base64,[A-Za-z0-9+/=\s]*\Z", re.IGNORECASE
)
ELSEWHERE = re.compile(
    r"(https?://|mailto:|#)", re.IGNORECASE
)  # but not the server of the notebook by its path
STYLES = {
    "background-color", "border", "border-collapse", "color", "font-family", "font-size", "font-style",
    "font-weight", "height", "margin", "padding", "text-align", "text-decoration", "vertical-align",
    "white-space", "width",
}  # fmt: skip
ATTRIBUTES = {
    **nh3.ALLOWED_ATTRIBUTES,
    "*": {"style", "title", "lang", "dir"},
    "table": nh3.ALLOWED_ATTRIBUTES["table"] | {"border"},
}


def contents(
    display: Display, trusted: bool, widget: dict[str, Any] | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Its data and metadata, fit for JSON. ``widget``: what it shows of one that is there."""
    data = {mime: value if trusted else harmless(mime, value) for mime, value in display.data.items()}
    if widget is not None:
        data[WIDGET] = widget
    for mime, as_html in () if trusted else AS_HTML:
        if isinstance(display.data.get(mime), (str, bytes)):
            data.setdefault("text/html", as_html(display.data[mime]))
    kept = {mime: plain(value) for mime, value in data.items() if value is not None}
    if kept.keys() <= {"text/plain"}:
        kept["text/plain"] = _without(kept.get("text/plain"), display.data.keys() - kept.keys())
    for markup in MARKUP:
        if markup in display.data and markup not in kept:
            kept["text/plain"] = str(display.data[markup])
    shown = {key: value for key, value in display.metadata.items() if trusted or key in kept}
    return kept, plain(shown)


def harmless(mime: str, value: Any) -> Any | None:
    """A form that makes the frontend neither run nor fetch anything, or None."""
    if mime in HARMLESS or mime.startswith(ANSWERS):
        return value
    if not isinstance(value, str):
        return None
    if mime == "text/html":
        return framed(value)
    return value if mime in MARKUP and _is_plain_markup(value) else None


def framed(value: str) -> str:
    """HTML that does more than a page may do is in a frame; it may be in one already."""
    if _frame.is_framed(value):
        return value
    return _frame.framed(value) if _frame.Survey(value).is_active else clean(value)


def clean(value: str) -> str:
    return nh3.clean(
        value,
        attributes=ATTRIBUTES,
        attribute_filter=_attribute,
        allowed_classes={"table": {"dataframe"}},
        filter_style_properties=STYLES,
        url_schemes={"http", "https", "mailto", "data"},
    )


def _without(text: Any, lost: set[str]) -> Any:
    """The text of a display whose other forms are not shown, which it says."""
    forms = sorted(lost - set(MARKUP))
    if not forms:
        return text or ""
    reason = NO_WIDGETS if WIDGET in forms else "as --trust-output was not given to the kernel"
    note = f"[{', '.join(forms)}: not shown, {reason}]"
    return note if text is None else f"{text}\n{note}"


def _attribute(tag: str, name: str, value: str) -> str | None:
    if name == "src":
        return value if EMBEDDED.match(value) else None
    if name in ("href", "cite"):
        return value if ELSEWHERE.match(value) else None
    return value


def _is_plain_markup(text: str) -> bool:
    """Whether Markdown or LaTeX has no HTML, no pictures and no scripts in its links."""
    bare = re.sub(r"[\s\\\x00-\x20]", "", html.unescape(text)).lower()
    if any(scheme in bare for scheme in ("javascript:", "vbscript:", "data:")):
        return False
    return not re.search(
        r"<(?!https?://)[A-Za-z/!?]|!\s*\\?\[|\\(includegraphics|require|style|cssId|class)\b", text
    )


def _picture_of(svg: str | bytes) -> str:
    """A picture in an <img> runs no scripts and fetches nothing."""
    data = base64.b64encode(svg.encode() if isinstance(svg, str) else svg).decode()
    return f'<img src="data:image/svg+xml;base64,{data}"/>'


def _script_of(code: str | bytes) -> str:
    return _frame.framed(_frame.script(code.decode("utf-8", "replace") if isinstance(code, bytes) else code))


AS_HTML = (("image/svg+xml", _picture_of), ("application/javascript", _script_of))
"""What frontends would run is shown as HTML that harms nobody."""


def plain(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {_key(key): plain(item) for key, item in value.items() if key != "__proto__"}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


def _key(key: Any) -> str:
    return key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key)
