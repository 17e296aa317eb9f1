"""What both kinds of session know of the session they stand for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, cast

from .._calls._asks import Asks
from .._calls._unseen import noted
from ..errors import BadRequest, SessionClosed
from ..results import Result
from ._options import SessionOptions, told
from ._requests import field


class Opened:
    name: str
    """Name of the session; ``SESSION/BRANCH`` for a branch."""
    instance: str
    """Id of this instance of the session. A session that is closed and opened again has a new one."""
    created: bool
    """Whether ``open()`` or ``branch()`` created the session; False if it existed."""
    engine: str
    """``oci``, ``docker`` or ``local``."""
    options: SessionOptions
    """All options with their values."""
    language: str
    """Language of the code that it runs: ``python``, or that of a context."""
    _checks = False  # whether calls raise for results that are not ok

    def __init__(self, opened: Mapping[str, Any], asks: Asks) -> None:
        self.name = field(opened, "session")
        self.instance = field(opened, "instance")
        self.created = bool(field(opened, "created"))
        self.engine = field(opened, "engine")
        self.options = cast("SessionOptions", told(field(opened, "options") or {}))
        self.language = opened.get("language") or "python"
        # The instance, because a session that was closed and opened again has other variables.
        self._target = {"session": self.name, "instance": self.instance}
        self._asks = asks
        self._closed = False
        self._codec: int | None = None  # epoch of the interpreter that has the codec of values
        self._candidates: list[str] = []  # branches of the last try_each(), until one is committed

    def __repr__(self) -> str:
        closed = " (closed)" if self._closed else ""
        return f"<limpet.{type(self).__name__} {self.name} on {self.engine}{closed}>"

    def __getstate__(self) -> dict[str, Any]:
        """Of a copy in another process: it is the same session, which it neither made nor closes when a block ends."""
        return {**self.__dict__, "created": False, "_candidates": []}

    def _checked(self, result: Result, check: bool | None) -> Result:
        return result.check() if (self._checks if check is None else check) else noted(result)

    def _check(self) -> None:
        if self._closed:
            raise SessionClosed(f"the session '{self.name}' is closed")

    def _check_python(self, what: str) -> None:
        self._check()
        if self.language != "python":
            raise BadRequest(f"{what} is for Python, and '{self.name}' is a context of {self.language}")

    def _branch_name(self, branch: Opened | str | int) -> str:
        if isinstance(branch, Opened):
            return branch.name
        if isinstance(branch, str):
            return branch
        if not 0 <= branch < len(self._candidates):
            made = len(self._candidates)
            raise BadRequest(f"there is no candidate {branch}: the last try_each() has {made}")
        return self._candidates[branch]

    def _take_candidates(self) -> list[str]:
        candidates, self._candidates = self._candidates, []
        return candidates


class Trial:
    """The names of one try_each(), random so that those of several clients do not collide."""

    def __init__(self, session: str, codes: Iterable[str]) -> None:
        if isinstance(codes, str):
            raise TypeError("codes must be a list of str, not a str")
        self.codes = list(codes)
        self.checkpoint = f"try-{os.urandom(4).hex()}"
        self.names = [f"{self.checkpoint}-{number}" for number in range(len(self.codes))]
        self.branches = [f"{session}/{name}" for name in self.names]
