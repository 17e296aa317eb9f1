"""Failures that nobody has looked at, told to people who type. Scripts check, or do not care."""

from __future__ import annotations

import sys
from typing import Any

from ..errors import warn
from ..results import Result


class Unseen(Result):
    """A result that failed. It becomes a plain one when anything of it is read."""

    def __getattribute__(self, name: str) -> Any:
        object.__setattr__(self, "__class__", Result)
        return object.__getattribute__(self, name)

    def __del__(self) -> None:
        """Only of one that is still unseen."""
        if not sys.is_finalizing():
            error = self.error
            why = f"{error.name}: {error.message}".rstrip(": ") if error else self.status
            warn(f"a call failed, and nobody looked at its result: {why}. check=True raises")


def noted(result: Result) -> Result:
    """The result of a call, which warns in an interactive Python and in notebooks where its failure goes unseen."""
    if hasattr(sys, "ps1") and not result.ok:
        object.__setattr__(result, "__class__", Unseen)
    return result
