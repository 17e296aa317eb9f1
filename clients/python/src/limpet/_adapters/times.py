"""How long calls of tools may take: a model waits for less than a person does."""

from __future__ import annotations

STANDARD = 30.0
"""Seconds of a call where neither the model nor the developer has said another number."""
SHORTER = "Split the work into shorter calls."
"""What a model reads after a call that took too long, where it has no say in the time."""


def longer(parameter: str, most: float | None = None) -> str:
    """The same, where it has a say."""
    limit = "" if most is None else f", up to {most:g} s"
    return f"The argument `{parameter}` gives a call more seconds{limit}."
