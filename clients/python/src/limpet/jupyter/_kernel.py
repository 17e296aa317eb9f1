"""The kernel: what each request of Jupyter's protocol means for a session."""

from __future__ import annotations

import argparse
import asyncio
import functools
import os
import re
from typing import Any

import zmq
from ipykernel._version import kernel_protocol_version
from ipykernel.kernelbase import Kernel
from IPython.core.inputtransformer2 import TransformerManager

from .. import Asks, BadRequest, Between, Display, Error, ErrorInfo, Result
from .. import __version__ as VERSION
from . import _ask, _cell, _commands, _complete, _display, _errors
from ._comms import KINDS, Comms
from ._history import History
from ._input import Frontend
from ._pace import TEXT, Pace
from ._sandbox import NOTEBOOK, Sandbox
from ._tree import Tree

Content = dict[str, Any]
BEFORE = 0  # in place of a cell's number: before the first one
RESULTS = re.compile(r"\b(?:In|Out|_\d+)\b|%(?:hist(?:ory)?|macro|re(?:call|p|run)|save)\b")


def number_of(result: Result) -> int:
    """Of a cell's call: only commands have none."""
    assert result.execution_count is not None
    return result.execution_count


class LimpetKernel(Kernel):  # type: ignore[misc]
    options: argparse.Namespace
    """Those of _options.py."""
    problem = ""
    """Why no cell can run: the kernel was installed with something it does not know."""

    implementation = "limpet"
    implementation_version = VERSION
    banner = f"Limpet {VERSION}: Python in a sandbox. %limpet help lists what it does besides."
    language_info = {
        "name": "python",
        "version": "3",
        "mimetype": "text/x-python",
        "file_extension": ".py",
        "pygments_lexer": "ipython3",
        "codemirror_mode": {"name": "ipython", "version": 3},
        "nbconvert_exporter": "python",
    }
    _execute_sleep = 0  # ipykernel waits here for output that its own streams may still hold

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.sandbox = Sandbox(self.options, self.parent.connection_file)
        self.history = History()
        self.artifacts: dict[str, str] = {}
        self.tree = Tree()
        self.pace, self.text_pace = Pace(), Pace(TEXT)
        self.comms = Comms(self.sandbox, self._send_comm, self._explain, self.pace, self.options.trust_output)
        self.asks = self.comms.asks(Frontend(self, lambda: self.sandbox.interrupts).line)
        self.silent_asks = self.comms.asks(None)
        self._counts: dict[str, dict[int, int]] = {}  # session: its count to ours
        for kind in KINDS:
            self.shell_handlers[kind] = functools.partial(self.comm_request, kind)

    @property
    def kernel_info(self) -> Content:
        """Without a debugger, for which ipykernel would load one here."""
        return {
            "protocol_version": kernel_protocol_version,
            "implementation": self.implementation,
            "implementation_version": self.implementation_version,
            "language_info": self.language_info,
            "banner": self.banner,
            "help_links": self.help_links,
            "supported_features": [],
        }

    def _publish_status(self, status: str, channel: str, parent: Any = None) -> None:
        """That the kernel is busy with a cell is told together with the cell's input, which comes next."""
        if status == "busy" and channel == "shell" and self._is_shown(self.get_parent("shell")):
            self.iopub_socket.hold()
        super()._publish_status(status, channel, parent)

    @staticmethod
    def _is_shown(request: Content) -> bool:
        content = request["content"]
        is_cell = request["header"]["msg_type"] == "execute_request" and isinstance(content, dict)
        return is_cell and not content.get("silent", False)

    # The calls of a session have numbers of their own; people see those of the notebook.

    def place(self, count: int, session: str | None = None) -> str:
        """``cell 3``, or ``call 7 of NAME`` for one that this notebook did not make."""
        session = session or self.sandbox.opened().name
        mine = self._counts.get(session, {}).get(count)
        return f"call {count} of {session}" if mine is None else f"cell {mine}"

    def after(self, count: int) -> str:
        call = self.call_of_cell(self.sandbox.opened().name, count)
        return f"{self.place(count)} left them" if call else "they were before the first call"

    def counted(self, session: str, origin: str) -> None:
        """A session has the history of another one."""
        self._counts[session] = dict(self._counts.get(origin, {}))

    def call_of_cell(self, session: str, count: int) -> int:
        """0 for the call by which a session began to be a notebook's: nothing had run before it."""
        return 0 if self._counts.get(session, {}).get(count) == BEFORE else count

    def went_back(self, session: str, count: int) -> None:
        """The variables are as a call left them."""
        self.tree.moved(session, self.call_of_cell(session, count))

    # Running

    async def execute_request(self, stream: Any, ident: Any, parent: Any) -> None:
        with self.sandbox.expecting():
            await super().execute_request(Replies(stream), ident, parent)

    async def do_execute(
        self,
        code: str,
        silent: bool,
        store_history: bool = True,
        user_expressions: Content | None = None,
        allow_stdin: bool = False,
        **more: Any,
    ) -> Content:
        if store_history and not silent:
            self.history.add(self.execution_count, code)
        elif not silent:  # a frontend asks, and no cell counts for it
            self.execution_count -= 1
        show = Output(self, silent)
        try:
            reply = self._execute(code, show, self.asks if allow_stdin else self.silent_asks)
        except _cell.Refused as refused:
            reply = show.error(_errors.of_us("UsageError", str(refused)))
        except Error as error:
            reply = show.error(_errors.of_limpet(error))
        except Exception as error:
            self.log.exception("a cell could not be run")
            reply = show.error(_errors.of_us("Internal", f"the kernel failed: {error!r}"))
        if reply["status"] == "ok":
            expressions = user_expressions or {}
            reply["user_expressions"] = {name: _no_expression() for name in expressions}
        return {**reply, "execution_count": self.execution_count}

    def _execute(self, code: str, show: Output, asks: Asks) -> Content:
        if self.problem:
            raise BadRequest(f"{self.problem}; correct the kernel with 'limpet jupyter install'")
        words = _cell.commands(code)
        if words is not None:
            for each in words:
                said = _commands.run(self, each)
                show.display(said) if isinstance(said, Display) else show.stdout(f"{said}\n")
        elif code.strip():
            return self._run(_cell.python(code), show, asks, code)
        return {"status": "ok", "payload": []}

    def _run(self, code: str, show: Output, asks: Asks, source: str) -> Content:
        try:
            self._begin(source)
            result = self._call(code, show, asks)
        finally:
            while self.sandbox.notes:
                show.note(self.sandbox.notes.pop(0))
        self._counts.setdefault(str(result.session), {})[number_of(result)] = self.execution_count
        self._grow(result, source)
        self.artifacts.update(result.artifacts)
        if result.result is not None:
            self.history.add_result(result.result)
            show.result(result.result)
        reply: Content = {"status": "ok"}
        if result.error is not None:
            takes_input = asks is not self.silent_asks
            reply = show.error(_errors.of_python(result.error, self.place, takes_input))
        self._warn(result, show)
        self._look_after_widgets(result)
        return {**reply, "payload": show.pages}

    def _call(self, code: str, show: Output, asks: Asks) -> Result:
        result = self.sandbox.run(code, show.stdout, show.stderr, show.display, asks)
        self.sandbox.has_begun = not result.warning
        if result.between is not None:
            show.between(result.between)
        return result

    def _grow(self, result: Result, source: str) -> None:
        """The tree of %limpet history."""
        session, label = str(result.session), f"In [{self.execution_count}]"
        self.tree.ran(session, number_of(result), label, source, result.error is not None)
        if result.warning:
            back = result.rolled_back_to
            self.went_back(session, back.execution_count if back else 0)

    def _begin(self, code: str) -> None:
        """What a session is told before a cell: once that it is a notebook's, and the results that the cell names."""
        session = self.sandbox.opened().name
        call = self.sandbox.begin()
        if call == 1:
            self._counts[session] = {call: BEFORE}
        wanted = sorted(set(RESULTS.findall(code)))
        if wanted:
            cells = self._counts.get(session, {})
            needs_sources = any(name[0] in "I%" for name in wanted)
            sources = {count: source for count, source, _ in self.history.cells} if needs_sources else {}
            self.sandbox.ask(f"{NOTEBOOK}.number(globals(), {cells}, {wanted}, {sources})")

    def _warn(self, result: Result, show: Output) -> None:
        if result.warning:
            to = result.rolled_back_to
            mine = to and self._counts.get(str(result.session), {}).get(to.execution_count)
            show.note(result.warning + (f" (that was In [{mine}])" if mine else ""))
        for path, reason in result.skipped.items():
            show.note(f"{path!a} is not published: {reason}")

    def _abort_queues(self, subshell_id: str | None = None) -> None:
        """Requests that have come by now are not run: 'Run all' ends at the first error.

        The mark that ends it takes the same way through the loop as they do, behind them.
        """
        self._aborting = True
        self.shell_stream.flush()

        async def end() -> None:
            await asyncio.create_task(self.shell_main(None, [zmq.Frame(b"stop aborting")]))

        self._end_of_abort = asyncio.ensure_future(end())

    # Interrupt, restart, end

    def pre_handler_hook(self) -> None:
        """SIGINT has one handler for the life of the process, see _app.py."""

    post_handler_hook = pre_handler_hook

    async def interrupt_request(self, stream: Any, ident: Any, parent: Any) -> None:
        self.sandbox.interrupt()
        self.session.send(stream, "interrupt_reply", {"status": "ok"}, parent, ident=ident)

    async def do_shutdown(self, restart: bool) -> Content:
        self.sandbox.end(restart)
        return {"status": "ok", "restart": restart}

    def _process_children(self) -> list[Any]:
        """None to end: a controller that was started from here serves others too."""
        return []

    # Questions

    async def do_complete(self, code: str, cursor_pos: int) -> Content:
        matches, start = _complete.complete(self.sandbox, code, cursor_pos)
        return {
            "status": "ok",
            "matches": matches,
            "cursor_start": start,
            "cursor_end": cursor_pos,
            "metadata": {},
        }

    async def do_inspect(
        self, code: str, cursor_pos: int, detail_level: int = 0, omit_sections: Any = ()
    ) -> Content:
        name = _ask.name_at(code, cursor_pos)
        text = _ask.describe(self.sandbox, name, detail_level > 0) if name else None
        return {
            "status": "ok",
            "found": text is not None,
            "data": {} if text is None else {"text/plain": text},
            "metadata": {},
        }

    async def do_is_complete(self, code: str) -> Content:
        status, indent = TransformerManager().check_complete(code)
        return {"status": status, **({"indent": " " * (indent or 0)} if status == "incomplete" else {})}

    async def do_history(self, hist_access_type: str, output: bool, raw: bool, **wanted: Any) -> Content:
        return {"status": "ok", "history": self.history.find(hist_access_type, output, **wanted)}

    # Widgets

    async def comm_request(self, kind: str, stream: Any, ident: Any, parent: Any) -> None:
        """What the browser says to a widget is a call of the session, and no cell."""
        buffers = [bytes(buffer) for buffer in parent.get("buffers", ())]
        show = Output(self, False)
        with self.sandbox.expecting():
            try:
                code = self.comms.request(kind, parent, buffers)
                if code is not None:
                    self._event(code, show)
            except Error as error:
                show.error(_errors.of_limpet(error))

    def _event(self, code: str, show: Output) -> None:
        self._begin(code)
        result = self._call(code, show, self.silent_asks)
        session = str(result.session)
        self._counts.setdefault(session, {})[number_of(result)] = self.execution_count
        if result.warning:
            back = result.rolled_back_to
            self.went_back(session, back.execution_count if back else 0)
        else:
            self.tree.also(session, number_of(result))
        if result.error is not None:
            show.error(_errors.of_python(result.error, self.place))
        self._warn(result, show)
        self._look_after_widgets(result)

    def _look_after_widgets(self, result: Result) -> None:
        """Where the variables are not as the last call left them, widgets are told apart from what is still there."""
        if self.sandbox.has_moved(result):
            self.check_widgets()

    def check_widgets(self) -> None:
        """Those that the variables have no more say that they are stale; the others show what they are now."""
        code = self.comms.question()
        if code is not None:
            self._begin(code)
            self.comms.answered(self.sandbox.answer(code, self.silent_asks))

    def _send_comm(self, kind: str, content: Content, metadata: Content, buffers: list[bytes]) -> None:
        """From any thread."""
        self.session.send(
            self.iopub_socket, kind, content, self.request, self._topic(kind), buffers, metadata=metadata
        )

    def _explain(self, error: ErrorInfo) -> Content:
        """Of a call that goes on, whose number is not known yet."""
        known = max(self._counts.get(self.sandbox.opened().name, {}), default=0)
        return _errors.of_python(
            error, lambda count: self.place(count) if count <= known else f"cell {self.execution_count}"
        )

    def set_parent(self, ident: Any, parent: Any, channel: str = "shell") -> None:
        super().set_parent(ident, parent, channel)
        if channel == "shell":
            self.request = parent
            self.comms.message_id = parent["header"]["msg_id"]


class Replies:
    """Sends on a stream at once; a stream itself would queue the reply for its loop, and be flushed behind it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def send_multipart(self, message: Any, **how: Any) -> None:
        self._stream.socket.send_multipart(message, **how)
        self._stream._update_handler(zmq.POLLIN)  # a request that came meanwhile is not announced again


class Output:
    """Where one cell shows what it does: nowhere when it is silent."""

    def __init__(self, kernel: LimpetKernel, silent: bool) -> None:
        self._kernel, self._silent = kernel, silent
        self._has_result = False
        self.pages: list[Content] = []
        """For the frontend's pager."""

    def stdout(self, text: str) -> None:
        self._stream("stdout", text)

    def stderr(self, text: str) -> None:
        self._stream("stderr", text)

    def note(self, text: str) -> None:
        self.stderr(f"limpet: {text}\n")

    def between(self, between: Between) -> None:
        """What threads and children wrote while no cell ran."""
        for write, text in ((self.stdout, between.stdout), (self.stderr, between.stderr)):
            if text:
                self.note("since the last cell, threads or children of earlier ones wrote:")
                write(text)
        if between.dropped:
            self.note(f"{between.dropped} more bytes were dropped")

    def display(self, display: Display) -> None:
        if display.update and display.display_id is None:
            self._send("clear_output", {"wait": bool(display.metadata.get("wait"))})
            return
        if display.metadata.get("is_page"):
            self.pages.append(
                {"source": "page", "data": {"text/plain": str(display.data["text/plain"])}, "start": 0}
            )
            return
        view = self._kernel.comms.view(display)
        data, metadata = _display.contents(display, self._kernel.options.trust_output, view)
        self._kernel.pace.wait(len(data.get("text/html", "")))
        if display.is_result and view is None:
            self._result(data, metadata)
            return
        self._has_result |= display.is_result
        display_id = display.display_id
        if view is not None:
            display_id = display_id or os.urandom(16).hex()
            self._kernel.comms.is_shown(display_id, view)
        transient = {} if display_id is None else {"display_id": display_id}
        kind = "update_display_data" if display.update else "display_data"
        self._send(kind, {"data": data, "metadata": metadata, "transient": transient})

    def result(self, text: str) -> None:
        """The text of the last expression, unless it came as a display."""
        if not self._has_result:
            self._result({"text/plain": text}, {})

    def error(self, content: Content) -> Content:
        """Shows it; the reply that says the same."""
        self._send("error", content)
        return {"status": "error", **content}

    def _result(self, data: Content, metadata: Content) -> None:
        self._has_result = True
        count = self._kernel.execution_count
        self._send("execute_result", {"execution_count": count, "data": data, "metadata": metadata})

    def _stream(self, name: str, text: str) -> None:
        if not self._silent:
            self._kernel.text_pace.message(len(text))
        self._send("stream", {"name": name, "text": text})

    def _send(self, kind: str, content: Content) -> None:
        if not self._silent:
            self._kernel.send_response(self._kernel.iopub_socket, kind, content)


def _no_expression() -> Content:
    return {
        "status": "error",
        **_errors.of_us("NotSupported", "user_expressions are not evaluated in a sandbox"),
    }
