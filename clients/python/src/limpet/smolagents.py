"""A session as the place where an agent of smolagents runs its code.

from smolagents import CodeAgent
from limpet.smolagents import LimpetExecutor

with LimpetExecutor(memory="512m") as executor:
    agent = CodeAgent(tools=[...], model=model, executor=executor)

Tools run in this process, with what they import and the keys they have; only their arguments and results travel. Needs
smolagents, which the extra ``smolagents`` of the package brings.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

try:
    import PIL.Image
    from smolagents.local_python_executor import CodeOutput, PythonExecutor
    from smolagents.monitoring import AgentLogger, LogLevel
    from smolagents.utils import AgentError
except ImportError as error:
    raise ImportError(
        f"limpet.smolagents needs smolagents ({error}): pip install 'smolagents>=1.26,<2'", name=error.name
    ) from error

from . import CallFailed, Client, Result, Session
from ._adapters import cells, telling, times
from ._adapters.exits import check_ran

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["LimpetExecutor"]

CHARS = 20_000  # of each text about a failure; smolagents cuts the others
WHOLE = 2 << 20
FINAL = "final_answer"
ANSWERED = "FinalAnswerException"
# final_answer() ends the cell, and leaves its arguments where this process gets them. A picture goes as its PNG.
PRELUDE = f'''
class {ANSWERED}(BaseException):
    """The code has its answer."""

def {FINAL}(*args, **kwargs):
    """Ends the task with this answer."""
    def sendable(value):
        if hasattr(value, "save") and type(value).__module__.partition(".")[0] == "PIL":
            import io
            file = io.BytesIO()
            value.save(file, "PNG")
            return {{"image/png": file.getvalue()}}
        return value
    global _final_answer
    _final_answer = [sendable(value) for value in args], {{name: sendable(value) for name, value in kwargs.items()}}
    raise {ANSWERED}("the code has its answer")
'''


class LimpetExecutor(PythonExecutor):  # type: ignore[misc, unused-ignore]
    """Runs the code of a ``CodeAgent`` in a session. A crash or a time limit takes no earlier step away."""

    def __init__(
        self,
        session: Session | None = None,
        *,
        additional_imports: Sequence[str] = (),
        logger: AgentLogger | None = None,
        client: Client | None = None,
        **options: Any,
    ) -> None:
        """Opens a session, unless one is given.

        Args:
            session: One that is open. It is left so.
            additional_imports: Packages that are installed for the session.
            logger: That of the agent; by default nothing is logged here.
            client: By default one of its own.
            **options: Those of :meth:`limpet.Client.open`. A step has 30 seconds unless ``timeout`` says otherwise; in
                a session that is given, those of the session.
        """
        self._own = client if client is not None or session is not None else Client()
        self._keeps_client = client is not None
        self._keeps_session = session is not None
        self.logger = logger or AgentLogger(level=LogLevel.OFF)
        self.tools: dict[str, Callable[..., Any]] = {}
        self._answer: Callable[..., Any] | None = None
        self._ready = False
        self._seconds = None if session is not None else options.get("timeout") or times.STANDARD
        if session is None:
            assert self._own is not None
            try:
                session = self._own.open(**{"checkpoint": "always", **options})
            except BaseException:
                if not self._keeps_client:
                    self._own.close()
                raise
        self.session = session
        if additional_imports:
            try:
                session.install(list(additional_imports))
            except BaseException:
                self.cleanup()
                raise

    def send_tools(self, tools: Mapping[str, Any]) -> None:
        """Makes tools callable by name. They stay in this process: their code and their packages are not sent."""
        self._answer = tools.get(FINAL)
        self.tools = {name: _callable(tool) for name, tool in tools.items() if name != FINAL}
        self._ready = False

    def send_variables(self, variables: Mapping[str, Any]) -> None:
        """Sets variables: plain data, arrays, tables, and pictures."""
        for name, value in variables.items():
            if isinstance(value, PIL.Image.Image):
                self.session.set(name, _png(value))
                self.session.run(f"import io, PIL.Image\n{name} = PIL.Image.open(io.BytesIO({name}))").check()
            else:
                self.session.set(name, value)

    def __call__(self, code_action: str) -> CodeOutput:
        """Runs code. AgentError, which the model is shown, where it fails."""
        self._prepare()
        result = self.session.run(cells.of_model(code_action), self._seconds, tools=self.tools)
        check_ran(result)
        if result.state != "kept":
            self._ready = False
        if result.error is not None and result.error.name == ANSWERED:
            return CodeOutput(self._answered(), telling.logs_of(result, WHOLE), True)
        if not result.ok:
            raise AgentError(_failure(result, code_action), self.logger)
        return CodeOutput(_value(result), telling.logs_of(result, WHOLE), False)

    def cleanup(self) -> None:
        """Closes the session, unless it was given."""
        if not self._keeps_session:
            self.session.close()
        if self._own is not None and not self._keeps_client:
            self._own.close()

    delete = cleanup

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cleanup()

    def _prepare(self) -> None:
        if not self._ready:
            names = f"from limpet_tools import {', '.join(self.tools)}\n" if self.tools else ""
            self.session.run(names + PRELUDE, tools=self.tools).check()
            self._ready = True

    def _answered(self) -> Any:
        try:
            args, kwargs = self.session.value("_final_answer")
        except CallFailed as failed:
            raise AgentError(
                f"The answer cannot leave the sandbox: {failed.message}\n"
                "Give final_answer() plain data, an array, a table, a picture or text.",
                self.logger,
            ) from failed
        args = [_picture(value) for value in args]
        kwargs = {name: _picture(value) for name, value in kwargs.items()}
        if self._answer is not None:
            return self._answer(*args, **kwargs)
        return args[0] if args else next(iter(kwargs.values()), None)


def _callable(tool: Any) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return tool(*args, **kwargs)

    call.__doc__ = getattr(tool, "description", None)
    return call


def _value(result: Result) -> Any:
    """Of the last expression: a picture, or its text."""
    for display in result.displays:
        data = display.data.get("image/png") or display.data.get("image/jpeg")
        if display.is_result and isinstance(data, bytes):
            return PIL.Image.open(io.BytesIO(data))
    return result.result


def _failure(result: Result, code: str) -> str:
    assert result.error is not None
    why = telling.error_of(result, CHARS, code)
    if result.status == "timeout":
        why = f"{result.error.traceback.rstrip()}\nThe code reached its time limit. {times.SHORTER}".lstrip()
    parts = [
        telling.logs_of(result, CHARS).rstrip(),
        "Executing code yielded an error:",
        why,
        telling.state_sentence(result),
    ]
    return "\n".join(part for part in parts if part)


def _png(picture: PIL.Image.Image) -> bytes:
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def _picture(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"image/png"}:
        return PIL.Image.open(io.BytesIO(value["image/png"]))
    return value
