"""The calls of a session as a notebook, of what the controller says of them. Texts and displays are hostile code's."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .._serialization._values import SET, VALUE

_TEXT = "text/plain"
_FROM_OUTSIDE = "# The value came from outside: set the variable here before you run what follows."


@dataclass
class Call:
    """A call that has ended."""

    branch: int
    code: str | None
    record: Mapping[str, Any] | None
    undone: bool = False
    """Its effects on the variables are gone."""

    @property
    def count(self) -> int | None:
        count = (self.record or {}).get("execution_count")
        return count if isinstance(count, int) else None

    @property
    def kind(self) -> str:
        return str((self.record or {}).get("kind") or "python")


@dataclass
class History:
    """What a session went through: calls in the order in which they ended."""

    own: tuple[str, ...] = ()
    """The commands by which an export asks, which are none of the session's."""
    calls: list[Call] = field(default_factory=list)
    full: bool = False

    def add(self, row: Mapping[str, Any]) -> None:
        """One entry of the controller's."""
        branch = int(row.get("branch") or 0)
        if row.get("full"):
            self.full = True
        elif row.get("committed") is not None:
            self._committed(branch, int(row["committed"]))
        elif row.get("back_to") is not None:
            self._undo(branch, int(row["back_to"]))
        elif (row.get("program") or {}).get("argv") != list(self.own):
            self._add_call(branch, row)

    def shown(self) -> Iterator[Call]:
        """Those of the session itself, and what its branches and contexts did besides Python."""
        own = (call for call in self.calls if call.branch == 0 or call.kind != "python")
        return (call for call in own if call.kind != "python" or not (call.code or "").startswith(VALUE))

    def _add_call(self, branch: int, row: Mapping[str, Any]) -> None:
        record = row.get("record")
        code = _line(row["program"]) if row.get("program") is not None else row.get("code")
        call = Call(branch, code, record if isinstance(record, Mapping) else None)
        self.calls.append(call)
        state = (record or {}).get("state")
        back = (record or {}).get("rolled_back_to") or {}
        if call.kind == "python" and state in ("rolled_back", "lost"):
            self._undo(branch, int(back.get("execution_count") or 0))

    def _undo(self, branch: int, count: int) -> None:
        for call in self.calls:
            if call.branch == branch and call.kind == "python" and (call.count is None or call.count > count):
                call.undone = True

    def _committed(self, branch: int, other: int) -> None:
        """The calls of the other branch take the place of those since it was made: it counted on from there."""
        moved = [call for call in self.calls if call.branch == other]
        counts = [call.count for call in moved if call.count is not None]
        if counts:
            self._undo(branch, min(counts) - 1)
        self.calls = [call for call in self.calls if call.branch != other]
        for call in moved:
            call.branch = branch
        self.calls += moved


def _line(program: Mapping[str, Any]) -> str:
    """A command as a cell has it."""
    if isinstance(program.get("command"), str):
        words = program["command"]
        return f"!{words}" if "\n" not in words else f"%%bash\n{words}"
    argv = program.get("argv") or ()
    return "!" + shlex.join(
        word.decode("utf-8", "replace") if isinstance(word, bytes) else str(word) for word in argv
    )


def _value(kind: str, value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, str) or kind.endswith("json"):
        return value
    return str(value)


def _bundle(display: Mapping[str, Any]) -> dict[str, Any]:
    return {str(kind): _value(str(kind), value) for kind, value in (display.get("data") or {}).items()}


def outputs(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """As nbformat has them."""
    found: list[dict[str, Any]] = []
    for name in ("stdout", "stderr"):
        if record.get(name):
            found.append({"output_type": "stream", "name": name, "text": str(record[name])})
    value: dict[str, Any] = {_TEXT: str(record["result"])} if record.get("result") is not None else {}
    for display in record.get("displays") or ():
        if display.get("is_result"):
            value = {**_bundle(display), **value}
        else:
            found.append({"output_type": "display_data", "data": _bundle(display), "metadata": {}})
    if value:
        count = record.get("execution_count")
        found.append(
            {"output_type": "execute_result", "data": value, "metadata": {}, "execution_count": count}
        )
    error = record.get("error")
    if error:
        lines = str(error.get("traceback") or "").splitlines()
        found.append(
            {
                "output_type": "error",
                "ename": str(error.get("name")),
                "evalue": str(error.get("message") or ""),
                "traceback": lines or [f"{error.get('name')}: {error.get('message') or ''}"],
            }
        )
    return found


def _note(text: str, number: int) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": f"note-{number}", "metadata": {}, "source": text}


def _cell(call: Call, number: int) -> dict[str, Any]:
    """What would not do again what it did when it ran is raw: it is shown, and not run."""
    record = call.record or {}
    code, status = call.code, record.get("status", "ok")
    is_set = call.kind == "python" and (code or "").startswith(SET)
    if is_set and code is not None:
        code = f"{code.partition(chr(10))[0]}\n{_FROM_OUTSIDE}"
    about = {
        key: record[key]
        for key in ("run_id", "status", "state", "kind", "execution_count", "duration")
        if key in record
    }
    if record.get("artifacts"):
        about["artifacts"] = sorted(_path(path) for path in record["artifacts"])
    if call.undone:
        about["undone"] = True
    metadata: dict[str, Any] = {"limpet": about}
    if call.kind == "bash" and code is not None:
        code = f"%%bash\n{code}"
    runs = code is not None and not call.undone and call.kind in ("python", "command", "bash")
    if not runs or is_set or status not in ("ok", "error"):
        text = (
            code
            if code is not None
            else "# The code of this call is not known: its controller was replaced while it ran."
        )
        return {"cell_type": "raw", "id": f"call-{number}", "metadata": metadata, "source": text}
    if status == "error":
        metadata["tags"] = ["raises-exception"]
    return {
        "cell_type": "code",
        "id": f"call-{number}",
        "metadata": metadata,
        "execution_count": call.count,
        "source": code,
        "outputs": outputs(record),
    }


def _path(path: str | bytes) -> str:
    return path if isinstance(path, str) else path.decode("utf-8", "surrogateescape")


def notebook(history: History, python: str) -> dict[str, Any]:
    """As nbformat 4.5 has it."""
    cells = [_cell(call, number) for number, call in enumerate(history.shown(), 1)]
    if history.full:
        cells.append(
            _note("Later calls are missing: the controller keeps 32 MiB of the calls of a session.", 1)
        )
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
            "language_info": {"name": "python", "version": python},
        },
        "cells": cells,
    }


@dataclass(frozen=True)
class Made:
    """An artifact, as the last call that made it left it."""

    path: str
    host_path: str
    size: int | None
    sha256: str | None
    run_id: str
    execution_count: int | None


def artifacts(calls: Iterable[Call]) -> list[Made]:
    """By path."""
    made: dict[str, Made] = {}
    for call in calls:
        record = call.record or {}
        infos = {_path(path): info for path, info in (record.get("artifact_info") or {}).items()}
        for path, host_path in (record.get("artifacts") or {}).items():
            info = infos.get(_path(path)) or {}
            made[_path(path)] = Made(
                _path(path),
                _path(host_path),
                info.get("size"),
                info.get("sha256"),
                str(record["run_id"]),
                call.count,
            )
    return [made[path] for path in sorted(made)]
