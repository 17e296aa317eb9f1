"""The table of operations: each function of the REST interface says where it is found and what it takes and gives."""

from __future__ import annotations

import itertools
import urllib.parse
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from ._call import Call

Handler = Callable[["Call"], Awaitable[Any]]
F = TypeVar("F", bound=Handler)

PREFIX = "/v1"


@dataclass(frozen=True)
class Query:
    """A parameter of the query."""

    name: str
    type: type
    help: str


@dataclass(frozen=True)
class Operation:
    """One of them.

    Args:
        method: Of HTTP.
        path: Below the prefix; ``{name}`` is one segment, ``{name:path}`` all that follow.
        handler: The function, whose first line of documentation is the summary.
        takes: What the JSON of the request's body becomes; ``bytes``: the body is a file; None: there is none.
        gives: What is answered; ``bytes``: a file; None: nothing. Several in a tuple, where that depends.
        status: Of the answer.
        also: Other statuses with which it answers well, and what it gives then.
        query: Its parameters.
        streams: Whether it also answers with server-sent events: ``always``, or where they are accepted.
        events: The types of their data, by name.
        open: Whether it needs no key.
    """

    method: str
    path: str
    handler: Handler
    takes: Any = None
    gives: Any = None
    status: int = 200
    query: tuple[Query, ...] = ()
    also: Mapping[int, Any] = field(default_factory=dict)
    streams: str = ""
    events: Mapping[str, Any] = field(default_factory=dict)
    open: bool = False

    @property
    def name(self) -> str:
        """What logs, metrics and the description call it."""
        return self.handler.__name__

    @property
    def kinds(self) -> tuple[Any, ...]:
        """What it gives with its own status."""
        return self.gives if isinstance(self.gives, tuple) else (self.gives,)

    @property
    def template(self) -> str:
        """Its path, as OpenAPI has it."""
        return self.path.replace(":path}", "}")

    @property
    def parameters(self) -> list[str]:
        """Those of the path."""
        return [part[1:-1] for part in self.template.split("/") if part.startswith("{")]


class Table:
    """Operations by method and path."""

    def __init__(self) -> None:
        self.all: list[Operation] = []
        self._by_end: dict[tuple[int, str], list[Operation]] = {}
        self._pieces: dict[str, list[str]] = {}  # of the paths

    def operation(self, method: str, path: str, **more: Any) -> Callable[[F], F]:
        """Decorates the function of one."""

        def add(handler: F) -> F:
            added = Operation(method, path, handler, **more)
            self.all.append(added)
            parts = self._pieces[path] = path.split("/")
            self._by_end.setdefault((len(parts), parts[-1]), []).append(added)
            return handler

        return add

    def find(self, method: str, raw_path: bytes) -> tuple[Operation, dict[str, str]] | Iterable[str]:
        """The operation and the parameters of its path; otherwise the methods that there are at this path.

        A ``%2F`` is part of its segment: so a branch is named in one, as ``SESSION%2FBRANCH``.
        """
        parts = raw_path.decode("latin-1").split("/")
        methods = set()
        # Most paths end in a word that says which it is.
        for operation in itertools.chain(self._by_end.get((len(parts), parts[-1]), ()), self.all):
            found = _match(self._pieces[operation.path], parts)
            if found is not None and operation.method == method:
                return operation, found
            if found is not None:
                methods.add(operation.method)
        return methods


def _match(template: list[str], parts: list[str]) -> dict[str, str] | None:
    found = {}
    for position, piece in enumerate(template):
        if piece.endswith(":path}"):
            rest = parts[position:]
            found[piece[1:-6]] = "/".join(map(_decoded, rest))
            return found if rest and rest != [""] else None
        if position >= len(parts):
            return None
        if piece.startswith("{"):
            if not parts[position]:
                return None
            found[piece[1:-1]] = _decoded(parts[position])
        elif piece != parts[position]:
            return None
    return found if len(parts) == len(template) else None


def _decoded(part: str) -> str:
    return urllib.parse.unquote(part, errors="surrogateescape") if "%" in part else part


table = Table()
operation = table.operation
