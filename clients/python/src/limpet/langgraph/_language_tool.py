"""A tool that runs code in other languages than Python, beside the one for Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

from langchain_core.tools import BaseTool, ToolException
from pydantic import Field, create_model

from .. import Result
from .._adapters import telling, times
from ._both import settled
from ._session_tool import tools_of
from ._tool import CodeSandbox

NO_SESSION = "other languages run only in a session, and this call has none: use Python"


def language_tool(sandbox: CodeSandbox, languages: Sequence[str]) -> BaseTool:
    """The LangChain tool ``run_code``, which runs code in other languages, with variables that stay between calls.

    Args:
        sandbox: What :func:`code_sandbox` made. The code runs in the sandbox's sessions, with the same files. A sandbox
            with another name than the usual gives the tool its name in front, as in ``NAME_run_code``.
        languages: Languages that the model may choose, such as ``["bash", "javascript"]``. The image has to have them.

    Returns:
        The tool, for the list of an agent beside the sandbox. If code fails, the model reads an error.
    """
    if isinstance(languages, str) or not languages:
        raise ValueError("languages must be a list of names, such as ['bash', 'javascript']")

    limits = dataclasses.replace(sandbox._limits, longer=times.SHORTER)

    async def run(session: Any, chars: int, language: str, code: str) -> str:
        result: Result = await settled(session.run(code, sandbox._seconds(None), language=language))
        content, _ = await telling.of_call(session, result, limits)
        if not result.ok:
            raise ToolException(content)
        return content

    fields: dict[str, Any] = {
        "language": (Literal[tuple(languages)], Field(description="the language of the code")),
        "code": (
            str,
            Field(description="runs after what was run in that language before, with its variables"),
        ),
    }
    arguments = create_model("run_code", **fields)
    description = (
        f"Runs code in {', '.join(languages)}, with the same files as Python. Standard input is empty."
    )
    return tools_of(sandbox, {"run_code": (description, arguments, run)}, NO_SESSION)[0]
