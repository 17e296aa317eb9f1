"""A model behind an interface like that of OpenAI, whose answers come piece by piece."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx

_CONNECT, _SILENCE = 10.0, 120.0  # seconds
_LONGEST = 4 << 20  # characters of an answer


class ModelFailed(Exception):
    """The model did not answer; the message says why."""


@dataclass
class ToolCall:
    """What a model wants to be done."""

    id: str = ""
    name: str = ""
    arguments: str = ""

    def as_message(self) -> dict[str, Any]:
        """As it stands in a message of the model."""
        return {
            "id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments},
        }  # fmt: skip


class Model:
    """Where it is, what it is called, and the key."""

    def __init__(self, url: str, name: str, key: str | None) -> None:
        self._url = url.rstrip("/") + "/chat/completions"
        self.name = name
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    async def answer(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], calls: list[ToolCall]
    ) -> AsyncIterator[str]:
        """The text of the answer in pieces. What it wants to be done is in ``calls`` afterwards. Raises ModelFailed."""
        body = {"model": self.name, "messages": messages, "tools": tools, "stream": True}
        timeout = httpx.Timeout(_SILENCE, connect=_CONNECT)
        size = 0
        try:
            async with (
                httpx.AsyncClient(timeout=timeout) as client,
                client.stream("POST", self._url, json=body, headers=self._headers) as response,
            ):
                if response.status_code != 200:
                    said = (await response.aread())[:300].decode("utf-8", "replace")
                    raise ModelFailed(f"the model answered with status {response.status_code}: {said}")
                async for line in response.aiter_lines():
                    size += len(line)
                    if size > _LONGEST:
                        raise ModelFailed("the model's answer has no end")
                    text = _piece(line, calls)
                    if text:
                        yield text
        except httpx.HTTPError as error:
            raise ModelFailed(f"the model cannot be reached: {error or type(error).__name__}") from None
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise ModelFailed(f"the model's answer is malformed: {error!r}") from None


def _piece(line: str, calls: list[ToolCall]) -> str:
    """The text of a line of the stream; calls are put together."""
    data = line.removeprefix("data:").strip()
    if not line.startswith("data:") or data == "[DONE]":
        return ""
    choices = json.loads(data).get("choices") or []
    delta = choices[0].get("delta") or {} if choices else {}
    for said in delta.get("tool_calls") or []:
        index = int(said.get("index") or 0)
        if index == len(calls):
            calls.append(ToolCall())
        call, function = calls[index], said.get("function") or {}
        call.id = said.get("id") or call.id
        call.name += function.get("name") or ""
        call.arguments += function.get("arguments") or ""
    return str(delta.get("content") or "")
