"""The requests about templates."""

from __future__ import annotations

from collections.abc import Mapping

from ..templates import Template
from . import _wire
from ._requests import Request, field, given

PUTTING_TTL = 600.0  # seconds that a sandbox for files outlives a client that ends while it fills it


def template(
    name: str,
    source: Mapping[str, str],
    image: str | None,
    env: Mapping[str, str] | None,
    setup: str | None,
    replace: bool,
) -> Request[Template]:
    body = {
        "name": name,
        **source,
        **given(image=image, env=None if env is None else dict(env), setup=setup, replace=replace or None),
    }
    return Request(
        _wire.TEMPLATE, body, lambda body: Template.from_wire(field(body, "template")), once="template"
    )


def templates() -> Request[list[Template]]:
    return Request(
        _wire.TEMPLATES, {}, lambda body: [Template.from_wire(row) for row in field(body, "templates")]
    )


def remove_template(name: str) -> Request[None]:
    return Request(_wire.REMOVE_TEMPLATE, {"name": name}, lambda body: None, once="remove_template")
