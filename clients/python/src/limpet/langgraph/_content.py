"""What LangChain takes of what the model is told: text, and figures as image blocks."""

from __future__ import annotations

import base64
from typing import Any

from .. import Result
from .._adapters import telling

Content = str | list[dict[str, Any]]


async def of_call(session: Any, result: Result, limits: telling.Limits, code: str = "") -> Content:
    """See ``telling.of_call``."""
    text, images = await telling.of_call(session, result, limits, code)
    blocks = [
        {"type": "image", "base64": base64.b64encode(image.data).decode(), "mime_type": image.mime_type}
        for image in images
    ]
    return [{"type": "text", "text": text}, *blocks] if blocks else text


def with_note(content: Content, note: str) -> Content:
    if isinstance(content, str):
        return f"{note}\n{content}"
    return [{"type": "text", "text": note}, *content]
