"""A session as the backend of a deep agent.

from deepagents import create_deep_agent
from limpet.deepagents import LimpetSandbox

with limpet.Client() as client, client.open("conv-1") as session:
    agent = create_deep_agent(model, backend=LimpetSandbox(session))

Needs deepagents, which the extra ``deepagents`` of the package brings.
"""

from __future__ import annotations

import dataclasses
import errno
from typing import TYPE_CHECKING, Any

try:
    from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
    from deepagents.backends.sandbox import BaseSandbox
except ImportError as error:
    raise ImportError(
        f"limpet.deepagents needs deepagents ({error}): pip install 'deepagents>=0.7,<0.8'", name=error.name
    ) from error

from . import BadRequest, Client, FileFailed, Session
from ._adapters import reading, references, times
from ._adapters.exits import exit_code
from ._adapters.kept import Kept

if TYPE_CHECKING:
    from deepagents.backends.protocol import ExecuteOffloadResult

__all__ = ["LimpetSandbox"]

# Standard error goes where standard output does, so that the model sees them in their order.
ARGV = ["bash", "-c", 'exec bash -c "$1" 2>&1', "bash"]

ERRORS = {
    errno.ENOENT: "file_not_found",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EROFS: "permission_denied",
    errno.EISDIR: "is_directory",
    errno.ENOTDIR: "invalid_path",
    errno.EINVAL: "invalid_path",
    errno.ENAMETOOLONG: "invalid_path",
}


class LimpetSandbox(BaseSandbox):
    """The commands and files of a session. Its variables are untouched, and live on beside them.

    One session may have several of these, and be used in other ways at the same time. It is not closed by this.
    """

    def __init__(self, session: Session) -> None:
        """``session``: a session that is open, such as ``client.open("conv-1")``."""
        self._session = session

    @classmethod
    def attach(cls, id: str, client: Client | None = None) -> LimpetSandbox:
        """The sandbox that has this ``id``, from another program or a time before.

        Args:
            id: What :attr:`id` was.
            client: By default one of its own.

        Raises:
            NoSuchSession: It has ended. Another session that has its name since is not taken for it.
        """
        return cls(references.attach(client or Client(), id))

    @property
    def id(self) -> str:
        """Name and instance of the session."""
        return references.reference(self._session)

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Runs a line of bash in ``/session``, beside the code. Of its output the first 10 MiB are kept.

        Args:
            command: The line.
            timeout: Seconds; by default, and for 0, 30.
        """
        output = Kept()
        result = self._session.exec([*ARGV, command], timeout=timeout or times.STANDARD, on_stdout=output.add)
        text = output.text + (f"\n[stopped: {times.longer('timeout')}]" if result.status == "timeout" else "")
        return ExecuteResponse(output=text, exit_code=exit_code(result), truncated=output.cut)

    def execute_with_offload(self, command: str, capture_path: str, **options: Any) -> ExecuteOffloadResult:
        """Runs a line for a model, without colours and earlier states of lines. The file has all as it was written."""
        return _for_model(super().execute_with_offload(command, capture_path, **options))

    async def aexecute_with_offload(
        self, command: str, capture_path: str, **options: Any
    ) -> ExecuteOffloadResult:
        """The same for asyncio."""
        return _for_model(await super().aexecute_with_offload(command, capture_path, **options))

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Writes files; directories are made. What fails says so, and the others are written."""
        return [FileUploadResponse(path=path, error=self._write(path, content)) for path, content in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Reads files. What fails says so, and the others are read."""
        return [self._read(path) for path in paths]

    def _write(self, path: str, content: bytes) -> str | None:
        if not path.startswith("/"):
            return "invalid_path"
        try:
            self._session.files.write(path, content)
        except (FileFailed, BadRequest) as error:
            return _named(error)
        return None

    def _read(self, path: str) -> FileDownloadResponse:
        if not path.startswith("/"):
            return FileDownloadResponse(path=path, error="invalid_path")
        try:
            return FileDownloadResponse(path=path, content=self._session.files.read(path))
        except (FileFailed, BadRequest) as error:
            return FileDownloadResponse(path=path, error=_named(error))


def _for_model(done: ExecuteOffloadResult) -> ExecuteOffloadResult:
    response = dataclasses.replace(done.response, output=reading.output(done.response.output))
    return dataclasses.replace(done, response=response)


def _named(error: FileFailed | BadRequest) -> str:
    if isinstance(error, FileFailed):
        return ERRORS.get(error.errno or 0, str(error))
    return "invalid_path"
