"""The tool itself: from what the model asks to a call of the sandbox, and back."""

from __future__ import annotations

import contextlib
import functools
import re
import uuid
from collections.abc import Callable
from typing import Any, Literal

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_stream_writer
from pydantic import BaseModel, Field, PrivateAttr, create_model
from typing_extensions import Unpack

from .. import Approve, Asks, Display, Error, Result, SessionOptions, Tools
from .._adapters import cells, telling, times
from . import _approval, _content, _ctrl_c, _places
from ._artifact import Artifact, artifact_of
from ._both import AnyClient, Clients, finish, settled
from ._contents import Contents, contents
from ._description import describe
from ._order import Order, OrderedTool, with_state

Kind = Literal["pinned", "ephemeral"]
Answer = tuple[Any, dict[str, Any]]

NAME = "code_sandbox"
PINNED_ONLY = "ttl", "ttl_action", "checkpoint", "pip"
"""Options of no use to a container that is there for one call."""
_TOOL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


class CodeSandbox(OrderedTool):
    """What :func:`code_sandbox` makes."""

    name: str = NAME
    description: str = ""
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    raise_errors: bool = False
    """Whether to raise failures that are otherwise reported to the model, such as a busy or missing sandbox."""

    _describe: Callable[[], str] = PrivateAttr()
    _clients: Clients = PrivateAttr()
    _kinds: tuple[Kind, ...] = PrivateAttr()
    _prefix: str = PrivateAttr(default="")
    _options: SessionOptions = PrivateAttr()
    _limits: telling.Limits = PrivateAttr()
    _artifact: Artifact = PrivateAttr(default="small")
    _asks: Asks = PrivateAttr(default_factory=Asks)
    _order: Order = PrivateAttr(default_factory=Order)

    def __getattr__(self, name: str) -> Any:
        """The description is made when somebody first reads it: making a tool opens nothing."""
        if name != "description":
            return super().__getattr__(name)  # type: ignore[misc]
        self.__dict__[name] = text = self._describe()
        return text

    def session_name(self, config: RunnableConfig) -> str | None:
        """Returns the name of the session that calls with this config use.

        Returns:
            A name made from ``thread_id`` or else ``run_id``. None if the config has neither: each call then runs in a
            clean container.
        """
        return _places.session_of(config, self._prefix)

    def _run(
        self,
        code: str,
        session: Kind | None = None,
        timeout: float | None = None,
        tool_call_id: str | None = None,
        state: Any = None,
        *,
        config: RunnableConfig,
    ) -> Answer:
        client = self._clients.blocking()
        return finish(self._in_turn(client, state, code, session, timeout, tool_call_id, config))

    async def _arun(
        self,
        code: str,
        session: Kind | None = None,
        timeout: float | None = None,
        tool_call_id: str | None = None,
        state: Any = None,
        *,
        config: RunnableConfig,
    ) -> Answer:
        client = await self._clients.of_this_loop()
        return await self._in_turn(client, state, code, session, timeout, tool_call_id, config)

    async def _in_turn(
        self,
        client: AnyClient,
        state: Any,
        code: str,
        kind: Kind | None,
        timeout: float | None,
        tool_call_id: str | None,
        config: RunnableConfig,
    ) -> Answer:
        """Calls of one message that share a session run in the order of the message."""
        name = self._pinned_name(kind, config)
        turn = self._order.turn(client, name, state, tool_call_id) if name else contextlib.nullcontext()
        async with turn:
            return await self._call(client, code, kind, timeout, tool_call_id, config)

    async def _call(
        self,
        client: AnyClient,
        code: str,
        kind: Kind | None,
        timeout: float | None,
        tool_call_id: str | None,
        config: RunnableConfig,
    ) -> Answer:
        name = self._pinned_name(kind, config)
        timeout = self._seconds(timeout)
        how = self._live_output(tool_call_id, name)
        try:
            how |= await self._answering(client, tool_call_id, config)
            how["run_id"] = how.get("run_id") or uuid.uuid4().hex
            with (
                _ctrl_c.noted(client, how["run_id"]),
                _approval.noted(config) if self._asks.tools else contextlib.nullcontext(),
            ):
                if name is None:
                    content, artifact = await self._run_ephemeral(client, code, timeout, how)
                    if self._is_pinned(kind):
                        content = _content.with_note(content, _places.NOTHING_STAYS)
                else:
                    content, artifact = await self._run_pinned(client, name, code, timeout, how, config)
        except Error as error:
            if self.raise_errors or not telling.is_for_model(error, code):
                raise
            content = telling.of_failure(error)
            failure = {"name": error.name, "message": error.message, "traceback": ""}
            artifact = {"session": name, "status": "failed", "error": failure, "artifacts": {}}
        if artifact["status"] == "ok" or tool_call_id is None:
            return content, artifact
        message = ToolMessage(
            content, artifact=artifact, tool_call_id=tool_call_id, name=self.name, status="error"
        )
        return message, artifact

    async def _run_pinned(
        self,
        client: AnyClient,
        name: str,
        code: str,
        timeout: float,
        how: dict[str, Any],
        config: RunnableConfig,
    ) -> Answer:
        session = await self._open(client, name, config)
        result: Result = await settled(session.run(cells.of_model(code), timeout, **how))
        artifact = artifact_of(result, self._artifact)
        artifact |= {"instance": session.instance, "checkpoint_id": None}
        return await _content.of_call(session, result, self._limits, code), artifact

    async def _run_ephemeral(
        self, client: AnyClient, code: str, timeout: float, how: dict[str, Any]
    ) -> Answer:
        given: dict[str, Any] = {
            name: value for name, value in self._options.items() if name not in (*PINNED_ONLY, "timeout")
        }
        result: Result = await settled(client.run(cells.of_model(code), timeout, **how, **given))
        return await _content.of_call(None, result, self._limits, code), artifact_of(result, self._artifact)

    async def _answering(
        self, client: AnyClient, tool_call_id: str | None, config: RunnableConfig
    ) -> dict[str, Any]:
        """What answers a call that may ask, and the name by which it is found again."""
        if not self._asks.tools:
            return {}
        run_id, _ = await self._find_run(client, tool_call_id, config)
        return {"run_id": run_id, "tools": _approval.in_graph(self._asks, config)}

    async def _find_run(
        self, client: AnyClient, tool_call_id: str | None, config: RunnableConfig
    ) -> tuple[str | None, bool]:
        """The run_id of a call that may ask, None for a new one; and whether it runs already."""
        if not self._asks.tools:
            return None, False
        thread = str((config.get("configurable") or {}).get("thread_id"))
        return await _approval.find_run(client, config, thread, tool_call_id)

    async def _open(self, client: AnyClient, name: str, config: RunnableConfig) -> Any:
        """The session, opened or attached to."""
        options = self._options
        if _places.thread_of(config) is None:
            options = {"ttl": _places.RUN_TTL, "ttl_action": "close", **options}
        return await settled(client.open(name, **options))

    def _seconds(self, timeout: float | None) -> float:
        """Of a call: as the model says, or the developer."""
        return timeout or self._options.get("timeout") or times.STANDARD

    def _is_pinned(self, kind: str | None) -> bool:
        return (kind or self._kinds[0]) == "pinned"

    def _pinned_name(self, kind: str | None, config: RunnableConfig) -> str | None:
        """The session of a call, None for a clean container."""
        return self.session_name(config) if self._is_pinned(kind) else None

    def _live_output(self, tool_call_id: str | None, session: str | None) -> dict[str, Any]:
        """Callbacks that hand on what the code prints to ``stream_mode="custom"``; none outside a graph."""
        try:
            write = get_stream_writer()
        except (KeyError, RuntimeError):
            return {}
        base = {"tool": self.name, "tool_call_id": tool_call_id, "session": session}

        def text(stream: str) -> Callable[[str], None]:
            return lambda data: write({**base, "stream": stream, "data": data})

        def display(shown: Display) -> None:
            if shown.data:  # otherwise what was shown is taken back, which a stream of events cannot do
                write({**base, "stream": "display", "data": shown.to_dict()["data"]})

        return {"on_stdout": text("stdout"), "on_stderr": text("stderr"), "on_display": display}


def code_sandbox(
    client: AnyClient | None = None,
    *,
    name: str = NAME,
    session_prefix: str | None = None,
    session: Kind = "pinned",
    allow_session: bool = False,
    max_timeout: float | None = None,
    max_chars: int = 8_000,
    max_images: int = 4,
    artifact: Artifact = "small",
    list_packages: bool = True,
    notes: str = "",
    raise_errors: bool = False,
    tools: Tools | None = None,
    approve: Approve | None = None,
    **session_options: Unpack[SessionOptions],
) -> CodeSandbox:
    """Returns the LangChain tool ``code_sandbox``, for blocking and asyncio agents.

    Busy, NoSuchSession, SessionClosed, TooLarge and Unavailable are reported to the model, which may try again or do
    without. Every other :class:`limpet.Error` is raised through the graph: the developer has to fix its cause.

    Args:
        client: The client to use. Defaults to one for the user's controller.
        name: Name of the tool. Each tool of an agent needs a name of its own.
        session_prefix: Prefix of the session names, before the ``thread_id``, to keep the sessions of applications and
            tools apart. Defaults to nothing, or to ``NAME-`` for a tool with another name than the default.
        session: ``"pinned"`` keeps one session for each ``thread_id`` of the graph; the model does not see its name.
            Without a ``thread_id``, each ``run_id`` that a graph is invoked with has a session, which ends 10 minutes
            after its last call. Without either, each call runs in a clean container, and the model is told so.
            ``"ephemeral"`` runs each call in a clean container.
        allow_session: Whether the model may choose between the two for each call.
        max_timeout: If given, the model may set the time limit of a call, up to this number of seconds. Otherwise a
            call has 30 seconds, or as many as the option ``timeout`` says.
        max_chars: Maximum number of characters of each text that the model sees.
        max_images: Maximum number of figures that the model sees.
        artifact: Content of the ``artifact`` of messages. ``"full"`` is ``Result.to_dict()``. ``"small"`` omits
            displays and texts over 1000 characters, because a graph stores all of its messages at each step;
            :meth:`limpet.Client.result` returns the rest for ten minutes. For a session, both include ``instance`` and
            the ``checkpoint_id`` that :class:`Rewind` took after the call.
        list_packages: Whether the description of the tool lists the version of Python, the installed packages and the
            default limits. They are read once, from a sandbox, when the description is first read, as it is when a
            model is given the tool; it never changes afterwards. Read ``tool.description`` yourself before, where that
            must not happen on an event loop.
        notes: Text to append to the description.
        raise_errors: Whether to raise the errors that are otherwise reported to the model.
        tools: Functions and LangChain tools that the code may call as ``limpet_tools.NAME(...)``. They run in this
            process.
        approve: Called before each such call, see :meth:`limpet.Session.run`. With a checkpointer, ``approve`` and
            tools may call LangGraph's ``interrupt()``: the graph stops, and the call waits in the sandbox with its time
            limit paused. When the graph is resumed, in another process if need be, ``approve`` is called again and
            ``interrupt()`` returns the answer.
        **session_options: See :class:`limpet.SessionOptions`.

    Returns:
        The tool.

    Raises:
        TypeError, ValueError: An argument is wrong. What a sandbox cannot be made with is raised when the description
            is read, or by the first call.
    """
    if session not in ("pinned", "ephemeral"):
        raise ValueError(f'session must be "pinned" or "ephemeral", not {session!r}')
    if artifact not in ("small", "full"):
        raise ValueError(f'artifact must be "small" or "full", not {artifact!r}')
    if not _TOOL_NAME.fullmatch(name):
        raise ValueError(
            f"name must be 1 to 64 letters, digits, _ and -, and begin with a letter, not {name!r}"
        )
    if max_timeout is not None and not max_timeout > 0:
        raise ValueError(f"max_timeout must be above 0 seconds, not {max_timeout!r}")
    if max_chars < 200:
        raise ValueError(f"max_chars must be at least 200, not {max_chars!r}")
    kinds: tuple[Kind, ...] = (session,)
    if allow_session:
        kinds = ("pinned", "ephemeral") if session == "pinned" else ("ephemeral", "pinned")
    _check_options(session_options, kinds)
    asks = _approval.asks_of(tools, approve)
    clients = Clients(client)
    arguments = with_state(_arguments(name, kinds, max_timeout))
    tool = CodeSandbox(
        name=name,
        args_schema=arguments,
        raise_errors=raise_errors,
    )
    del tool.__dict__["description"]
    tool._describe = functools.partial(
        _describe, clients, session_options, list_packages, kinds, max_timeout, notes, asks
    )
    tool._clients = clients
    tool._kinds = kinds
    tool._prefix = session_prefix if session_prefix is not None else "" if name == NAME else f"{name}-"
    tool._options = session_options
    tool._limits = telling.Limits(max_chars, max_images, longer=_longer(max_timeout))
    tool._artifact = artifact
    tool._asks = asks
    tool._order.add(name, arguments, lambda given: tool._is_pinned(given.get("session")))
    return tool


def _describe(
    clients: Clients,
    options: SessionOptions,
    list_packages: bool,
    kinds: tuple[Kind, ...],
    max_timeout: float | None,
    notes: str,
    asks: Asks,
) -> str:
    inside = contents(clients.blocking(), options) if list_packages else Contents(None, options)
    seconds = options.get("timeout") or times.STANDARD
    return describe(kinds, inside, seconds, max_timeout, notes, asks)


def _longer(max_timeout: float | None) -> str:
    return times.SHORTER if max_timeout is None else times.longer("timeout", max_timeout)


def _check_options(options: SessionOptions, kinds: tuple[Kind, ...]) -> None:
    unknown = sorted(options.keys() - SessionOptions.__optional_keys__)
    if unknown:
        raise TypeError(
            f"unknown option {', '.join(unknown)}; "
            f"the options are {', '.join(SessionOptions.__annotations__)}"
        )
    useless = [name for name in PINNED_ONLY if name in options and "pinned" not in kinds]
    if useless:
        raise TypeError(
            f'{" and ".join(useless)} need a pinned session; with session="ephemeral" nothing is kept'
        )


def _arguments(name: str, kinds: tuple[Kind, ...], max_timeout: float | None) -> type[BaseModel]:
    """What the model sees."""
    fields: dict[str, Any] = {"code": (str, Field(description="Python source code"))}
    if len(kinds) > 1:
        text = "pinned: the session of this conversation; ephemeral: a clean container for this call only"
        fields["session"] = (Literal["pinned", "ephemeral"], Field(default=kinds[0], description=text))
    if max_timeout is not None:
        text = f"time limit of this call in seconds, at most {max_timeout:g}"
        fields["timeout"] = (float | None, Field(default=None, gt=0, le=max_timeout, description=text))
    return create_model(name, **fields)
