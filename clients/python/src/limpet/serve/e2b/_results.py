"""What a call gave, as lines of E2B's code interpreter."""

from __future__ import annotations

import base64
import re
import time
from typing import Any

import msgspec

from ... import Display, Result

_NAMES = {
    "text/plain": "text", "text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg",
    "image/png": "png", "image/jpeg": "jpeg", "application/pdf": "pdf", "text/latex": "latex",
    "application/json": "json", "application/javascript": "javascript", "e2b/data": "data", "e2b/chart": "chart",
}  # fmt: skip


def line(kind: str, **members: Any) -> bytes:
    """One event."""
    return msgspec.json.encode({"type": kind, **members}) + b"\n"


def output(stream: str, text: str) -> bytes:
    """Something was written to ``stdout`` or ``stderr``."""
    return line(stream, text=text, timestamp=time.time_ns())


def display(shown: Display) -> bytes:
    """Something was shown."""
    members: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for mime, value in shown.data.items():
        if isinstance(value, bytes):
            value = base64.b64encode(value).decode()
        name = _NAMES.get(mime)
        if name is None:
            extra[mime] = value
        else:
            members[name] = _unquoted(value) if name == "text" else value
    if extra:
        members["extra"] = extra
    return line("result", is_main_result=shown.is_result, **members)


def value(text: str) -> bytes:
    """The value of the last expression, where it has no form but its text."""
    return line("result", text=_unquoted(text), is_main_result=True)


def between(result: Result) -> list[bytes]:
    """What threads and children of earlier calls wrote before this one began."""
    if result.between is None:
        return []
    texts = {"stdout": result.between.stdout, "stderr": result.between.stderr}
    if result.between.dropped:
        texts["stderr"] += f"[{result.between.dropped} more bytes were dropped]\n"
    return [output(stream, text) for stream, text in texts.items() if text]


def ending(result: Result, uncounted: int, shown_value: bool) -> list[bytes]:
    """What a call ends with: its value, its number, its error, and what became of the variables."""
    lines = []
    if result.result is not None and not shown_value:
        lines.append(value(result.result))
    if result.execution_count is not None:
        lines.append(line("number_of_executions", execution_count=max(result.execution_count - uncounted, 0)))
    if result.error is not None:
        message = _message(result, uncounted)
        lines.append(error(result.error.name, message, result.error.traceback))
    if result.state != "kept":
        name = "StateRolledBack" if result.state == "rolled_back" else "StateLost"
        before = f"{result.error.name}: {_message(result, uncounted)}. " if result.error is not None else ""
        lines.append(error(name, before + _fate(result, uncounted), ""))
    return lines


def _message(result: Result, uncounted: int) -> str:
    """Of its error. Where that tells what became of the variables, calls have the numbers that their owner knows."""
    said = result.error.message if result.error is not None else ""
    if result.state != "rolled_back":
        return said
    return re.sub(r"\bafter call (\d+)\b", lambda found: _after(int(found[1]) - uncounted), said)


def _after(count: int) -> str:
    return f"after call {count}" if count > 0 else "before the first call"


def _fate(result: Result, uncounted: int) -> str:
    """What became of the variables."""
    back = result.rolled_back_to
    if back is None:
        return "the variables are lost, the files are not"
    missing = f"; not restored: {', '.join(result.not_restored)}" if result.not_restored else ""
    return f"the variables are as they were {_after((back.execution_count or 0) - uncounted)}{missing}"


def restored(notes: list[str]) -> list[bytes]:
    """What is not as it was before the sandbox was saved, if anything is not."""
    told = "the sandbox was restored, and not all is as it was: " + "; ".join(notes)
    return [error("StateRestored", told, "")] if notes else []


def error(name: str, message: str, traceback: str) -> bytes:
    """Something went wrong."""
    return line("error", name=name, value=message, traceback=traceback)


def _unquoted(text: Any) -> Any:
    """The text of a text has no quotes, as E2B's users know it."""
    if isinstance(text, str) and len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text
