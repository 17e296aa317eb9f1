"""Tools for programs in the background of a sandbox, beside the one that runs code in it."""

from __future__ import annotations

from typing import Any

from langchain_core.tools import BaseTool
from pydantic import BaseModel, Field

from .. import Output
from .._adapters import reading, telling
from ._both import settled
from ._session_tool import Work, tools_of
from ._tool import CodeSandbox

NO_SESSION = (
    "processes run only in a session, and this call has none: use code that runs a program and waits for it"
)
PATIENCE = 300  # seconds that the model may wait for output


class StartProcess(BaseModel):
    command: str = Field(description="a line for bash, such as: python3 -m http.server 8000")
    name: str = Field(description="what it is called from now on: letters, digits and . _ -")
    cwd: str | None = Field(default=None, description="where it runs, relative to /session")


class ReadProcess(BaseModel):
    name: str = Field(description="the name, or the id that is listed")
    since: int = Field(default=0, ge=0, description="where to begin, in bytes, as the last answer said")
    wait: float = Field(
        default=0, ge=0, le=PATIENCE, description="seconds to wait for output, if there is none yet"
    )


class SendProcess(BaseModel):
    name: str = Field(description="the name, or the id that is listed")
    text: str = Field(description="goes to its standard input; lines end in a newline")


class StopProcess(BaseModel):
    name: str = Field(description="the name, or the id that is listed")
    signal: str = Field(default="TERM", description="TERM, INT, HUP or KILL")


class ListProcesses(BaseModel):
    pass


async def _start(session: Any, chars: int, command: str, name: str, cwd: str | None = None) -> str:
    await settled(session.start(command, cwd=cwd, name=name))
    return f"{name} was started"


async def _of(session: Any, name: str) -> Any:
    return await settled(session.process(name))


async def _read(session: Any, chars: int, name: str, since: int = 0, wait: float = 0) -> str:
    output: Output = await settled((await _of(session, name)).output(since, wait))
    head = f"[{'ended' if output.ended else 'running'}, next since={output.next}]"
    return f"{head}\n{telling.clip(reading.output(output.text), chars)}" if output.text else head


async def _send(session: Any, chars: int, name: str, text: str) -> str:
    await settled((await _of(session, name)).send(text))
    return f"{name} has read it"


async def _stop(session: Any, chars: int, name: str, signal: str = "TERM") -> str:
    await settled((await _of(session, name)).send_signal(signal))
    return f"{name} was sent SIG{signal.removeprefix('SIG')}"


async def _list(session: Any, chars: int) -> str:
    return "\n".join(map(_line, await settled(session.processes()))) or "no process runs"


def _line(process: Any) -> str:
    ended = f"signal {process.signal}" if process.signal else f"exit code {process.exit_code}"
    state = "running" if process.running else ended
    return f"{process.name or process.id}: {state}: {process.command}"


_TOOLS: dict[str, tuple[str, type[BaseModel], Work]] = {
    "start_process": (
        "Starts a program in the background of the sandbox, such as a server, and returns at once.",
        StartProcess,
        _start,
    ),
    "read_process": ("Reads what a process in the background has written.", ReadProcess, _read),
    "send_to_process": ("Writes to the standard input of a process in the background.", SendProcess, _send),
    "stop_process": ("Sends a signal to a process in the background.", StopProcess, _stop),
    "list_processes": (
        "Lists the processes in the background, with those that have ended.",
        ListProcesses,
        _list,
    ),
}


def process_tools(sandbox: CodeSandbox) -> list[BaseTool]:
    """The LangChain tools for programs in the background: ``start_process``, ``read_process``, ``send_to_process``,
    ``stop_process`` and ``list_processes``.

    Args:
        sandbox: What :func:`code_sandbox` made. The processes run in its sessions, beside the code and with the same
            files, and survive what the code does. A sandbox with another name than the usual gives the tools its name
            in front, as in ``NAME_start_process``.

    Returns:
        The tools, for the list of an agent beside the sandbox. If the sandbox refuses, the model reads why.
    """
    return tools_of(sandbox, _TOOLS, NO_SESSION)
