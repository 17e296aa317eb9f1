# Generated from limpet/_async/exporting.py by scripts/generate-blocking: change that file.
"""What a session has done, as files."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from typing import IO, Any

from .._copying import _trees
from .._copying._files import Path
from .._protocol._requests import Request
from .._protocol._wire import EXPORT, FILE_CHUNK
from .._saved import _notebook, _saving
from ..errors import FileFailed, ProtocolMismatch
from .connecting import in_thread
from .saving import Saving

_ARTIFACTS = "/session/artifacts/"
_VERSIONS = """
import importlib.metadata, json, os, platform
packages = {found.metadata["Name"]: found.version for found in importlib.metadata.distributions()}
lock = os.path.join(os.environ.get("PYTHONUSERBASE", ""), "share", "limpet", "packages.lock")
requirements = open(lock).read().splitlines() if os.path.exists(lock) else []
print(json.dumps({"python": platform.python_version(), "packages": packages, "requirements": requirements}))
"""
_ASK_VERSIONS = ("python3", "-c", _VERSIONS)


class Exporting(Saving):
    """How a session becomes files that others read."""

    def export(self, directory: Path) -> dict[str, Any]:
        """Writes what the session has done to a directory: a notebook, its artifacts, and what it ran with.

        ``notebook.ipynb`` has the calls in order with their outputs, and runs again from top to bottom: cells whose
        effects were rolled back or lost, and those that ended in a crash or a timeout, are raw cells.
        ``artifacts/`` has the files below ``/session/artifacts`` that calls made, each as its last call left it.
        ``lock.json`` has the image, the version of Python, the versions of all packages, and the requirements, with
        hashes, of those that the session has installed. The controller keeps 32 MiB of the calls of a session; the
        notebook says what is missing.

        Args:
            directory: Local directory. It is made; files of those names are replaced.

        Returns:
            A dict with ``notebook`` and ``lock``, the paths of the files, and ``artifacts``, a list of dicts with
            ``path`` in the container, ``file`` (None if it is not as it was any more), ``size``, ``sha256``,
            ``run_id`` and ``execution_count`` of the call that made it.
        """
        self._check_python("export()")
        top = os.fsdecode(directory)
        history = self._history()
        lock = self._lock()
        made = []
        in_thread(_made_directory, f"{top}/artifacts")
        landing = _trees.Landing(f"{top}/artifacts")
        for artifact in _notebook.artifacts(history.calls):
            made.append(self._artifact(artifact, landing, top))
        notebook = _notebook.notebook(history, str(lock["python"]))
        paths = {"notebook": f"{top}/notebook.ipynb", "lock": f"{top}/lock.json"}
        in_thread(_write_json, paths["notebook"], notebook)
        in_thread(_write_json, paths["lock"], {**lock, "artifacts": made})
        return {"notebook": paths["notebook"], "artifacts": made, "lock": paths["lock"]}

    def _history(self) -> _notebook.History:
        history = _notebook.History(_ASK_VERSIONS)
        following: int | None = 0
        while following is not None:
            request = Request(EXPORT, {"next": following}, _page)
            rows, following = self._request(request)
            for row in rows:
                history.add(row)
        return history

    def _lock(self) -> dict[str, Any]:
        """Asked of a process of its own: nothing of the variables is touched."""
        said = (self.exec(list(_ASK_VERSIONS), timeout=60, check=True)).stdout
        try:
            versions = json.loads(said)
            packages = {str(name): str(version) for name, version in versions["packages"].items()}
            requirements = [str(line) for line in versions["requirements"]]
            python = str(versions["python"])
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise ProtocolMismatch(
                f"the sandbox says what cannot be read of its packages: {error!r}"
            ) from error
        image = self.options.get("image") or None
        return {
            "session": self.name,
            "engine": self.engine,
            "image": image,
            "python": python,
            "packages": dict(sorted(packages.items())),
            "requirements": requirements,
        }

    def _artifact(self, artifact: _notebook.Made, landing: _trees.Landing, top: str) -> dict[str, Any]:
        """The controller's copy, where it can be read here and is that of the call; otherwise the sandbox's file."""
        path = artifact.path[len(_ARTIFACTS) :]
        found = False
        if artifact.path.startswith(_ARTIFACTS) and _saving.is_plain(path):
            found = in_thread(_landed_copy, artifact, landing, path)
            found = found or self._landed_file(artifact, landing, path)
        return {
            "path": artifact.path,
            "file": f"{top}/artifacts/{path}" if found else None,
            "size": artifact.size,
            "sha256": artifact.sha256,
            "run_id": artifact.run_id,
            "execution_count": artifact.execution_count,
        }

    def _landed_file(self, artifact: _notebook.Made, landing: _trees.Landing, path: str) -> bool:
        with tempfile.TemporaryFile() as held:
            try:
                self.files.read(artifact.path, held)
            except FileFailed:
                return False
            return in_thread(_landed, held, artifact, landing, path)


def _page(body: dict[str, Any]) -> tuple[list[dict[str, Any]], int | None]:
    rows = body.get("history")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ProtocolMismatch("the controller sent a history that is none")
    return rows, body.get("next")


def _made_directory(path: str) -> None:
    os.makedirs(path, exist_ok=True)


def _write_json(path: str, what: Any) -> None:
    text = json.dumps(what, indent=1, ensure_ascii=True)
    temporary = f"{path}.limpet-{os.urandom(8).hex()}"
    try:
        with open(temporary, "x", encoding="ascii") as file:
            file.write(f"{text}\n")
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _landed_copy(artifact: _notebook.Made, landing: _trees.Landing, path: str) -> bool:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        with os.fdopen(os.open(artifact.host_path, flags), "rb") as held:
            return _landed(held, artifact, landing, path)
    except OSError:
        return False


def _landed(held: IO[bytes], artifact: _notebook.Made, landing: _trees.Landing, path: str) -> bool:
    """Whether it is what the call made. It is where it belongs then."""
    digest = hashlib.sha256()
    held.seek(0)
    while piece := held.read(FILE_CHUNK):
        digest.update(piece)
    if digest.hexdigest() != artifact.sha256:
        return False
    held.seek(0)
    with landing.file(_trees.Item(path, "file", 0o644)) as file:
        shutil.copyfileobj(held, file, FILE_CHUNK)
    return True
