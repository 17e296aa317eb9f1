"""A tool that installs packages in the session of a thread."""

from __future__ import annotations

from typing import Any

from langchain_core.tools import BaseTool, ToolException
from pydantic import BaseModel, Field

from .. import InstallFailed
from ._both import settled
from ._session_tool import tools_of
from ._tool import CodeSandbox

DESCRIPTION = (
    "Installs Python packages in the sandbox, whose code can import them at once. pip and a network are not needed for "
    "that. Returns the packages that are there then, with their versions."
)
NO_SESSION = "packages are installed only in a session, and this call has none"


class Install(BaseModel):
    packages: list[str] = Field(description="requirements, such as polars or 'polars==1.*'", min_length=1)


async def _install(session: Any, most: int, packages: list[str]) -> str:
    try:
        installed = await settled(session.install(packages))
    except InstallFailed as error:
        raise ToolException(f"{error.name}: {error.message}") from None
    return "\n".join(f"{name} {version}" for name, version in installed.packages.items())[:most]


def install_tool(sandbox: CodeSandbox) -> BaseTool:
    """The LangChain tool ``install``, which installs packages in the session that a sandbox has.

    Args:
        sandbox: What :func:`code_sandbox` made. A sandbox with another name than the usual gives the tool its name in
            front, as in ``NAME_install``.

    Returns:
        The tool, for the list of an agent beside the sandbox. If an installation fails, the model reads why.
    """
    return tools_of(sandbox, {"install": (DESCRIPTION, Install, _install)}, NO_SESSION)[0]
