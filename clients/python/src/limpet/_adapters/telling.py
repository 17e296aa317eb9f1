"""What a model is told about calls and files: bounded text, and figures. The adapters make their messages of it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import (
    BadRequest,
    Busy,
    Display,
    Entry,
    Error,
    NoSuchSession,
    Result,
    SessionClosed,
    TooLarge,
    Unavailable,
)
from ..results import Image
from . import cells, reading, times

ARTIFACTS = 40  # paths that are listed
ENTRIES = 500  # of a directory
NO_PYTHON = ("SyntaxError", "IndentationError", "TabError")
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")

_NEXT_STEP: dict[type[Error], str] = {
    Busy: "Too many calls wait for this session; try again when others have ended.",
    NoSuchSession: "The session ended; its variables and files are gone. The next call starts a new session.",
    SessionClosed: "The session ended; its variables and files are gone. The next call starts a new session.",
    TooLarge: "Split it into smaller parts.",
    Unavailable: "Try again in a moment. It is unknown whether the code ran.",
}


@dataclass(frozen=True)
class Limits:
    """Of what the model is shown: characters of each of the texts, and images."""

    chars: int
    images: int
    image_bytes: int = 4 << 20
    longer: str = times.SHORTER
    """What the model can do where a call reached its time limit."""


async def of_call(session: Any, result: Result, limits: Limits, code: str = "") -> tuple[str, list[Image]]:
    """As of_result(), with the end of output that is too long for the record. ``session`` may be a blocking one."""
    return of_result(result, limits, await tails_of(session, result, limits.chars), code)


async def tails_of(session: Any, result: Result, size: int) -> dict[str, str]:
    """The end of each stream that was too long for the record, from its file."""
    tails = {}
    for stream in ("stdout", "stderr"):
        file = getattr(result, f"{stream}_file")
        if file is None or result.session is None:
            continue
        offset = max(getattr(result, f"{stream}_bytes") - size, 0)
        try:
            data = session.get(file, offset=offset, size=size)
            data = await data if inspect.isawaitable(data) else data
        except Error:
            continue  # the code may have removed it; the beginning is in the record
        tails[stream] = data.decode("utf-8", "replace")
    return tails


def of_result(
    result: Result, limits: Limits, tails: Mapping[str, str], code: str = ""
) -> tuple[str, list[Image]]:
    """The text, and the figures.

    Args:
        result: The record.
        limits: Of each text, and of the figures.
        tails: The end of a stream, by its name, whose record has the beginning only.
        code: What was sent as Python, for what to say where it is none.
    """
    images, unseen = _images(result.displays, limits)
    parts = [_heading(result), _time(result, limits), state_sentence(result), *_between(result, limits.chars)]
    for stream in ("stdout", "stderr"):
        parts.append(_section(stream, _stream(result, stream, limits.chars, tails.get(stream, ""))))
    if result.result is not None:
        parts.append(_section("value", clip(reading.plain(result.result), limits.chars)))
    texts = map(reading.plain, _texts(result.displays))
    parts += [_section("display", clip(text, limits.chars)) for text in texts]
    parts += [
        _section("error", error_of(result, limits.chars, code)),
        _memory(result),
        *unseen,
        _artifacts(result),
    ]
    return "\n".join(part for part in parts if part), images


def logs_of(result: Result, limit: int) -> str:
    """What was written, for frameworks that tell all else themselves."""
    parts = [*_between(result, limit), _stream(result, "stdout", limit, "")]
    return "\n".join(
        part for part in (*parts, _section("stderr", _stream(result, "stderr", limit, ""))) if part
    )


def error_of(result: Result, limit: int, code: str = "") -> str:
    """Why it failed, nothing where it did not. ``code``: see of_result()."""
    if result.error is None:
        return ""
    if result.error.name in NO_PYTHON and cells.is_prose(code):
        return cells.NO_PYTHON
    last = f"{result.error.name}: {result.error.message}"
    trace = clip(reading.traceback(result.error.traceback.rstrip()), limit)
    if result.error.name not in trace:
        trace = f"{trace}\n{clip(last, limit)}" if trace else clip(last, limit)
    return trace


def is_for_model(error: Error, code: str) -> bool:
    """What may pass, and what its own code is the cause of. All else the developer has to put right."""
    own = isinstance(error, BadRequest) and code != readable(code)
    return own or isinstance(error, tuple(_NEXT_STEP))


def of_failure(error: Error) -> str:
    """The sandbox itself failed; the model may try again or do without."""
    step = next((text for kind, text in _NEXT_STEP.items() if isinstance(error, kind)), "")
    return f"The sandbox did not run the code. {error.name}: {error.message} {step}".strip()


def clip(text: str, limit: int, where: str = "") -> str:
    """Head and tail of what is too long, and a line in between that says so."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    return f"{text[:head]}\n[... {len(text) - limit} characters omitted{where} ...]\n{text[-tail:]}"


def page_of(data: bytes, offset: int, limit: int, chars: int) -> str:
    """Lines of a text file, and where to read on. What is not UTF-8 is replaced."""
    lines = data.decode("utf-8", "replace").splitlines(keepends=True)
    text = "".join(lines[offset : offset + limit])
    if len(text) > chars:
        text = text[:chars]
        shown = text.count("\n") or 1  # a line that is too long is cut
    else:
        shown = len(lines[offset : offset + limit])
    if offset + shown < len(lines):
        text += (
            f"\n[lines {offset} to {offset + shown} of {len(lines)}; read on with offset={offset + shown}]"
        )
    return text


def is_binary(data: bytes) -> bool:
    """As git has it."""
    return b"\0" in data[:8192]


def listing_of(path: str, entries: Sequence[Entry]) -> str:
    """A directory: what is in it ends in a mark, or has its size."""
    marks = {"directory": "/", "symlink": "@", "other": "?"}
    lines = [readable(entry.path) + marks.get(entry.type, f"  {entry.size}") for entry in entries[:ENTRIES]]
    if len(entries) > ENTRIES:
        lines.append(f"[{len(entries) - ENTRIES} more]")
    return "\n".join(lines) or f"{path} is empty"


def state_sentence(result: Result) -> str:
    """What became of the variables, when they are not as this call left them."""
    if result.session is None or result.state == "kept":
        return ""
    files = "Files were not rolled back."
    back = result.rolled_back_to
    if result.state == "lost" or back is None:
        return (
            "STATE LOST: all variables and imports are gone; the next call starts with an empty interpreter. "
            f"{files} Repeat what you need."
        )
    if not back.execution_count:
        point = "before the first call"
    elif back.execution_count == (result.execution_count or 0) - 1:
        point = f"before this call (as call {back.execution_count} left them)"
    else:
        point = f"after call {back.execution_count}; the changes of later calls are lost"
    sentence = f"STATE ROLLED BACK: the variables are as they were {point}. {files}"
    if result.not_restored:
        sentence += f" Not restored: {'; '.join(result.not_restored)}."
    return sentence


def readable(text: str) -> str:
    """A path that is not UTF-8, in characters that can be sent."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _heading(result: Result) -> str:
    how = f"{result.status}, {result.duration:.2f} s"
    if result.session is None or result.execution_count is None:
        return f"[{how}]"
    new = " of a new session" if result.execution_count == 1 else ""
    return f"[call {result.execution_count}{new}: {how}]"


def _time(result: Result, limits: Limits) -> str:
    if result.status != "timeout":
        return ""
    return f"TIME LIMIT: the call was stopped after {result.duration:.1f} s. {limits.longer}"


def _section(title: str, text: str) -> str:
    return f"{title}:\n{text.rstrip()}" if text.strip() else ""


def _between(result: Result, limit: int) -> list[str]:
    """What threads and children of earlier calls wrote before this one began."""
    if result.between is None:
        return []
    streams = [("stdout", _readable(result.between.stdout)), ("stderr", _readable(result.between.stderr))]
    parts = [_section(f"{name} since the last call", clip(text, limit)) for name, text in streams]
    if result.between.dropped:
        parts.append(f"[{result.between.dropped} more bytes were written since the last call and dropped]")
    return parts


def _memory(result: Result) -> str:
    """Where there is little left: which names to delete."""
    names = [f"{one.name} ({one.type}, {one.bytes / 1e6:.0f} MB)" for one in result.memory or []]
    held = "Before this call most of the memory was" if result.status == "oom" else "Most of the memory is"
    return f"{held} held by: {', '.join(names)}." if names else ""


def _readable(text: str) -> str:
    """Output may have tracebacks, such as those of threads."""
    text = reading.output(text)
    return reading.traceback(text) if "Traceback (most recent call last)" in text else text


def _stream(result: Result, name: str, limit: int, tail: str) -> str:
    text = _readable(getattr(result, name))
    file: str | None = getattr(result, f"{name}_file")
    if not file:
        more = f"; {name} had {getattr(result, f'{name}_bytes')} bytes" if result.truncated else ""
        return clip(text, limit, more)
    size = getattr(result, f"{name}_bytes")
    if result.session is None:
        return clip(text, limit, f"; {size} bytes were written, the rest was removed with the container")
    head = text[: limit * 2 // 3]
    tail = _readable(tail)[-(limit - len(head)) :] if tail else ""
    return f"{head}\n[... {size} bytes in total; the full text is in {file} ...]\n{tail}"


def _images(displays: list[Display], limits: Limits) -> tuple[list[Image], list[str]]:
    """Figures for the model, and lines about those that it is not shown."""
    images: list[Image] = []
    unseen = 0
    for display in displays:
        kind = next((kind for kind in IMAGE_TYPES if isinstance(display.data.get(kind), bytes)), None)
        if kind is None:
            unseen += any(name.startswith("image/") for name in display.data)
        elif len(images) < limits.images and len(display.data[kind]) <= limits.image_bytes:
            images.append(Image(kind, display.data[kind]))
        else:
            unseen += 1
    figures = "figure is" if unseen == 1 else "figures are"
    return images, [f"({unseen} more {figures} not shown)"] if unseen else []


def _texts(displays: list[Display]) -> list[str]:
    """Of displays that are neither figures nor the value, which is there as text."""
    texts = []
    for display in displays:
        if display.is_result or any(kind.startswith("image/") for kind in display.data):
            continue
        text = display.data.get("text/markdown") or display.data.get("text/plain")
        if isinstance(text, str):
            texts.append(text)
    return texts


def _artifacts(result: Result) -> str:
    lines = []
    for path, info in list(result.artifact_info.items())[:ARTIFACTS]:
        lines.append(f"{readable(path)} ({info.mime_type}, {info.size} bytes)")
    more = len(result.artifact_info) - len(lines)
    if more > 0:
        lines.append(f"and {more} more")
    lines += [
        f"{readable(path)} not available: {why}" for path, why in list(result.skipped.items())[:ARTIFACTS]
    ]
    return _section("artifacts", "\n".join(lines))
