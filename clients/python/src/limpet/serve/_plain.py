"""JSON of what the client returns."""

from __future__ import annotations

import json
from typing import Any

import msgspec


def encode(value: Any) -> bytes:
    """Dataclasses as objects, bytes as base64. Names that are not UTF-8 keep their surrogates, escaped."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value)).encode()
