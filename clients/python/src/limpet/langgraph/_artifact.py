"""What the application is told about a call, and what a graph keeps of it for each message, again and again."""

from __future__ import annotations

from typing import Any, Literal

from .. import Result
from .._adapters.telling import readable

Artifact = Literal["small", "full"]

TEXT = 1000
"""Characters of a text that a small artifact has."""


def artifact_of(result: Result, how: Artifact) -> dict[str, Any]:
    """The record as plain data. A small one has no texts that are long, and of displays no more than their sizes."""
    plain = result.to_dict()
    small = plain if how == "full" else _small(plain)
    return {name: _sendable(value) for name, value in small.items()}


def _small(plain: dict[str, Any]) -> dict[str, Any]:
    displays = [{kind: _size(value) for kind, value in shown["data"].items()} for shown in plain["displays"]]
    error = plain["error"] and {name: _short(text) for name, text in plain["error"].items()}
    texts = {name: _short(plain[name]) for name in ("stdout", "stderr", "result")}
    rest = {name: value for name, value in plain.items() if name != "changed"}
    return {**rest, **texts, "displays": displays, "error": error}


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= TEXT else None


def _size(value: Any) -> int:
    """Of base64 or other text; of JSON as Python writes it."""
    return len(value) if isinstance(value, str) else len(repr(value))


def _sendable(value: Any) -> Any:
    """Plain data whose texts are all UTF-8: what keeps the threads of a graph takes no others."""
    if isinstance(value, str):
        return readable(value)
    if isinstance(value, dict):
        return {_sendable(key): _sendable(item) for key, item in value.items()}
    return [_sendable(item) for item in value] if isinstance(value, list) else value
