"""The variables of a session: what they are, and the copies of them that are kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from ._connection._transport import Shape
from .errors import ProtocolMismatch

T = TypeVar("T")


@dataclass(frozen=True, repr=False)
class Variable:
    """A variable, and what is known of its value without running any code of the session."""

    name: str
    type: str
    """Name of the type, with its module unless that is ``builtins``."""
    shape: tuple[int, ...] | None = None
    """Shape of arrays and frames; length of list, tuple, set, dict, str and bytes; otherwise None."""
    dtype: str | None = None
    """Element type of arrays and series."""
    bytes: int | None = None
    """Size of the data, if known."""
    repr: str | None = None
    """``repr()`` of built-in scalars and short strings."""

    @classmethod
    def from_wire(cls, row: Mapping[str, Any]) -> Variable:
        """From the body of a reply."""
        return made(VARIABLE, "a variable", row)

    def __repr__(self) -> str:
        parts = [self.name, self.type]
        if self.shape is not None:
            parts.append("x".join(map(str, self.shape)) or "scalar")
        if self.dtype is not None:
            parts.append(self.dtype)
        if self.repr is not None:
            parts.append(f"= {self.repr}")
        return f"<Variable {' '.join(parts)}>"


class Namespace(list[Variable]):
    """The variables of a session in the order they were bound."""

    more: int = 0
    """Number of variables left out because there are too many."""

    @classmethod
    def from_wire(cls, body: Mapping[str, Any]) -> Namespace:
        """From the body of a reply."""
        try:
            namespace = cls(Variable.from_wire(row) for row in body["names"])
            namespace.more = int(body.get("more") or 0)
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolMismatch(f"a namespace is malformed: {error!r}") from error
        return namespace


@dataclass(frozen=True)
class Changed:
    """The names that a call added, changed and deleted. False if there are none."""

    added: list[Variable] = dataclasses.field(default_factory=list, hash=False)
    changed: list[Variable] = dataclasses.field(default_factory=list, hash=False)
    """Names that are bound to another value now."""
    deleted: list[str] = dataclasses.field(default_factory=list, hash=False)
    more: int = 0
    """Number of variables left out because there are too many."""

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.deleted or self.more)


@dataclass(frozen=True)
class Checkpoint:
    """A frozen copy of a session's variables."""

    id: str
    name: str | None
    session: str
    """The session or branch that it was taken of."""
    execution_count: int
    """The last call whose effects are in it."""
    created: float
    """Unix time."""
    automatic: bool
    files: bool
    """Whether it includes a copy of ``/session``."""
    private_bytes: int
    """Memory that only this checkpoint holds, at the last measurement."""
    parent: str | None
    """Id of the checkpoint that its state started from."""
    dropped: tuple[str, ...] = dataclasses.field(default=(), compare=False)
    """From ``checkpoint()``: ids of checkpoints that were removed to make room."""

    @classmethod
    def from_wire(cls, row: Mapping[str, Any], dropped: Iterable[str] = ()) -> Checkpoint:
        """From the body of a reply."""
        checkpoint = made(_CHECKPOINT, "a checkpoint", row)
        return dataclasses.replace(checkpoint, dropped=tuple(dropped)) if dropped else checkpoint


@dataclass(frozen=True)
class Rollback:
    """The result of ``rollback()``."""

    checkpoint: str
    """Id of the checkpoint."""
    execution_count: int
    """The last call whose effects are in memory now."""
    epoch: int
    files: Literal["kept", "restored"]
    """``restored`` if the checkpoint includes ``/session``, otherwise ``kept``."""
    not_restored: list[str] = dataclasses.field(hash=False)
    """What a copy of memory does not restore, such as child processes."""

    @classmethod
    def from_wire(cls, body: Mapping[str, Any]) -> Rollback:
        """From the body of a reply."""
        return made(_ROLLBACK, "a rollback", body)


@dataclass(frozen=True)
class Committed:
    """What ``commit()`` did: the count and the epoch of the session, which now has the branch's state."""

    execution_count: int
    epoch: int

    @classmethod
    def from_wire(cls, body: Mapping[str, Any]) -> Committed:
        """From the body of a reply."""
        return made(_COMMITTED, "a commit", body)


def shape(
    cls: type[T], absent: Mapping[str, Any] | None = None, **converts: Any
) -> Callable[[Mapping[str, Any]], T]:
    """How the protocol's map for a dataclass becomes one; see Shape."""
    return Shape(cls, tuple(each.name for each in dataclasses.fields(cls)), dict(absent or {}), converts)  # type: ignore


def made(how: Callable[[Mapping[str, Any]], T], what: str, fields: Mapping[str, Any]) -> T:
    """Raises ProtocolMismatch when the controller has sent something else."""
    try:
        return how(fields)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ProtocolMismatch(f"{what} is malformed: {error!r}") from error


VARIABLE = shape(Variable, dict.fromkeys(("shape", "dtype", "bytes", "repr")), shape=tuple)
CHANGED = shape(
    Changed, {"added": [], "changed": [], "deleted": [], "more": 0},
    added=[VARIABLE], changed=[VARIABLE], deleted=list, more=int,
)  # fmt: skip
_CHECKPOINT = shape(Checkpoint, {"name": None, "parent": None, "dropped": ()}, dropped=lambda ids: ())
_ROLLBACK = shape(Rollback, {"not_restored": []}, not_restored=list)
_COMMITTED = shape(Committed)
