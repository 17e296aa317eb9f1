"""Templates: Limpet's own, by their names, which ``limpet template`` makes. The SDK's builder is refused."""

from __future__ import annotations

from typing import Any

from ... import Template
from .._gateway import Gateway
from ._http import Refused, shown_time

DEFAULT = ("base", "code-interpreter-v1")
VERSION = "0.6.4"
"""Of E2B's daemon: what it can do by this version is here."""

_BY_OPERATOR = (
    "templates are made by the operator, with `limpet template create` and `limpet image build`, and not here"
)


async def options_of(gateway: Gateway, name: str) -> dict[str, str | None]:
    """Options of a session that begins from this one: a template, or an image. None for a default that nobody made.

    Containers of a template are ready before anybody could say what they see as /data, which not every engine adds.
    """
    if name in {each.name for each in await _made(gateway)}:
        return {"template": name, "data": None}
    if name in DEFAULT:
        return {}
    if gateway.settings.fleet is not None:
        raise Refused(404, f"template '{name}' was not found: all pods are alike; leave the template out")
    return {"image": name}


async def rows(gateway: Gateway) -> list[dict[str, Any]]:
    """All of them, as E2B lists templates."""
    made = {each.name: each for each in await _made(gateway)}
    return [
        _row(name, made.get(name), gateway.settings.session_memory)
        for name in (*DEFAULT, *sorted(made.keys() - set(DEFAULT)))
    ]


async def row(gateway: Gateway, name: str) -> dict[str, Any]:
    """One. Raises Refused."""
    for each in await rows(gateway):
        if each["templateID"] == name:
            return each
    raise Refused(404, f"template '{name}' was not found")


def refuse() -> None:
    """A build is asked for. Raises Refused."""
    raise Refused(501, _BY_OPERATOR)


async def _made(gateway: Gateway) -> list[Template]:
    """None in pods."""
    return await gateway.client.templates() if gateway.settings.fleet is None else []


def _row(name: str, made: Template | None, memory: int) -> dict[str, Any]:
    when = shown_time(made.created if made else 0)
    return {
        "templateID": name, "buildID": name, "cpuCount": 1, "memoryMB": memory >> 20, "diskSizeMB": 0, "public": False,
        "aliases": [name], "names": [name], "createdAt": when, "updatedAt": when, "createdBy": None,
        "lastSpawnedAt": None, "spawnCount": 0, "buildCount": 1, "envdVersion": VERSION, "buildStatus": "ready",
    }  # fmt: skip
