"""Records of calls, as their owner sees them."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import urllib.parse

from ... import BadRequest, Result
from ..._protocol._requests import new_run_id
from .._gateway import Gateway
from .._keys import Owner
from .._plain import encode
from ._operations import PREFIX

_RUN_ID = re.compile(r"[0-9a-f]{32}\Z")
_ARTIFACTS = "/session/artifacts/"
_FIELDS = tuple(each.name for each in dataclasses.fields(Result))


def checked_run_id(given: str | None) -> str:
    """A new one where none was given. Raises BadRequest."""
    if given is None:
        return new_run_id()
    if not _RUN_ID.match(given):
        raise BadRequest("run_id has to be 32 hexadecimal digits in lower case")
    return given


def inner_run_id(owner: Owner, run_id: str) -> str:
    """What the controller calls a call without a session: another one for each owner, so that it tells whose it is."""
    if owner.is_anonymous:
        return run_id
    return hashlib.sha256(f"{owner.id}:{run_id}".encode()).hexdigest()[:32]


def show(gateway: Gateway, owner: Owner, run_id: str, result: Result) -> bytes:
    """The record with the owner's name of the session, and addresses instead of paths of this machine."""
    record = {name: getattr(result, name) for name in _FIELDS}
    record["run_id"] = run_id
    record["displays"] = [display.to_dict() for display in result.displays]
    record["changed"] = result.changed or None
    record["state_protection"] = result.state_protection or None
    if result.session is not None:
        record["session"] = gateway.name(owner, result.session)
    if result.artifacts:
        record["artifacts"] = {
            path: artifact_url(record["session"], run_id, path) for path in result.artifacts
        }
    return encode(record)


def artifact_url(session: str | None, run_id: str, path: str) -> str:
    """Where an artifact is for users."""
    if session is not None and path.startswith(_ARTIFACTS):
        base = session.partition("/")[0]
        return f"{PREFIX}/sessions/{base}/artifacts/{quoted(path[len(_ARTIFACTS) :])}"
    return f"{PREFIX}/runs/{run_id}/artifacts/{quoted(path.lstrip('/'))}"


def quoted(path: str) -> str:
    """A path in an address; bytes that are not UTF-8 as they are."""
    return urllib.parse.quote(path.encode("utf-8", "surrogateescape"))
