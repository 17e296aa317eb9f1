"""Tools for the files of a sandbox, beside the one that runs code in it."""

from __future__ import annotations

from typing import Any

from langchain_core.tools import BaseTool
from pydantic import BaseModel, Field

from .._adapters import telling
from ._both import settled
from ._session_tool import Work, tools_of
from ._tool import CodeSandbox

NO_SESSION = "files are kept only in a session, and this call has none: use code that reads and writes them in one call"


class ReadFile(BaseModel):
    path: str = Field(description="absolute, or relative to /session")
    offset: int = Field(default=0, ge=0, description="line to begin at, from 0")
    limit: int = Field(default=1000, gt=0, description="lines at most")


class WriteFile(BaseModel):
    path: str = Field(description="absolute, or relative to /session; directories are made")
    content: str = Field(description="all that the file will have")


class ListFiles(BaseModel):
    path: str = Field(default="/session", description="a directory")
    depth: int = Field(default=1, ge=1, le=16, description="levels")


async def _read(session: Any, chars: int, path: str, offset: int = 0, limit: int = 1000) -> str:
    data: bytes = await settled(session.files.read(path))
    if telling.is_binary(data):
        return f"{path} is no text: {len(data)} bytes. Use code to look into it."
    return telling.page_of(data, offset, limit, chars)


async def _write(session: Any, chars: int, path: str, content: str) -> str:
    await settled(session.files.write(path, content))
    return f"{path}: {len(content.encode())} bytes written"


async def _list(session: Any, chars: int, path: str = "/session", depth: int = 1) -> str:
    return telling.listing_of(path, await settled(session.files.list(path, depth)))


_TOOLS: dict[str, tuple[str, type[BaseModel], Work]] = {
    "read_file": ("Reads a text file of the sandbox.", ReadFile, _read),
    "write_file": ("Writes a text file of the sandbox; one that is there is replaced.", WriteFile, _write),
    "list_files": (
        "Lists a directory of the sandbox: directories end in /, files have their size.",
        ListFiles,
        _list,
    ),
}


def file_tools(sandbox: CodeSandbox) -> list[BaseTool]:
    """The LangChain tools ``read_file``, ``write_file`` and ``list_files``, on the session that a sandbox has.

    Args:
        sandbox: What :func:`code_sandbox` made. The code that it runs and these tools see the same files. A sandbox
            with another name than the usual gives the tools its name in front, as in ``NAME_read_file``.

    Returns:
        The tools, for the list of an agent beside the sandbox. If the sandbox refuses, the model reads why.
    """
    return tools_of(sandbox, _TOOLS, NO_SESSION)
