"""Approval by LangGraph's ``interrupt()``: the graph stops, the call in the sandbox waits, and both go on later.

A node that was interrupted runs again from its start, perhaps in another process, and ``interrupt()`` gives out
the answers there are in the order in which it is called. The sandbox does not run again: its call is joined, and
asks only what has no answer yet. So that an answer is never taken for that to another question, a mark with the
name of the question is put before it, into the list of the node's answers, which the checkpointer keeps.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphInterrupt

from .. import Approve, Asks, NoSuchRun, ToolCall, Tools
from . import _answers
from ._both import AnyClient, settled

_MARK, _WAITS = "limpet", "waits"  # the name of a question, and which of its answers is waited for
_ATTEMPTS = 128  # more than a session keeps records

_lock = threading.Lock()
_sharing: Counter[int] = Counter()  # calls of the sandbox that run in one node of a graph, by its scratchpad


def asks_of(tools: Tools | None, approve: Approve | None) -> Asks:
    """One question after the other, as the answers of a node have an order."""
    asks = Asks(tools, approve=approve)
    if approve is not None and not asks.tools:
        raise ValueError("approve decides about calls of tools, and there are none: give tools as well")
    if asks.tools:
        _answers.check()
    return asks


def in_graph(asks: Asks, config: RunnableConfig) -> Asks:
    """The same for a call of that node."""
    bound = Asks(approve=_Approval(asks.approve, config), serial=True)
    bound.use(asks.tools)
    return bound


class _Approval:
    def __init__(self, approve: Approve | None, config: RunnableConfig) -> None:
        self._approve = approve
        self._config = config
        self._passed = -1  # index of the last mark that interrupt() is behind of

    def __call__(self, call: ToolCall) -> Any:
        content = repr([call.tool, call.args, call.kwargs])  # of plain data: the same in every process
        digest = hashlib.sha256(content.encode("utf-8", "backslashreplace")).hexdigest()[:16]
        self._find_answer(f"{call.run_id}:{call.number}:{digest}")
        return True if self._approve is None else self._approve(call)

    def _find_answer(self, name: str) -> None:
        """The next interrupt() gets the answer to this question, or none."""
        pad = _answers.scratchpad(self._config)
        if pad is None:
            return
        if _sharing[id(pad)] > 1:
            raise RuntimeError(
                "several calls of code_sandbox run in one node of the graph, so that interrupt() cannot tell whose "
                "answer is whose: send each to a node of its own, as create_agent does"
            )
        answers: list[Any] = pad.resume
        position = next((at for at, mark in _marks(self._config) if mark[_MARK] == name), None)
        if position is None:
            position = self._mark(answers, name)
        given = len(answers) - position - 1
        if answers[position][_WAITS] != given + 1:
            _discard(pad)
        while self._passed < position:
            self._passed = pad.interrupt_counter()
        if self._passed > position:
            raise RuntimeError(
                "interrupt() was called besides approve and the tools: its answers are mixed up"
            )

    def _mark(self, answers: list[Any], name: str) -> int:
        """The mark of the question before takes the new name when that has called no interrupt()."""
        last = len(answers) - 1
        if answers and self._passed == last and _is_mark(answers[last]):
            answers[last][_MARK] = name
            return last
        answers.append({_MARK: name, _WAITS: 0})
        return last + 1


@contextlib.contextmanager
def noted(config: RunnableConfig) -> Iterator[None]:
    """While a call runs: those that share a node have no order among each other."""
    pad = id(_answers.scratchpad(config))
    with _lock:
        _sharing[pad] += 1
    try:
        yield
    except GraphInterrupt:
        _note_wait(config)
        raise
    finally:
        with _lock:
            _sharing[pad] -= 1
            if not _sharing[pad]:
                del _sharing[pad]


async def find_run(
    client: AnyClient, config: RunnableConfig, thread: str, tool_call_id: str | None
) -> tuple[str | None, bool]:
    """The run_id of a call of the tool, and whether it is joined: it has been begun by an earlier run of the node.

    Of a node that is run anew from an earlier checkpoint of the thread it is another one each time.
    """
    if tool_call_id is None:
        return None, False
    begun = {mark[_MARK].partition(":")[0] for _, mark in _marks(config)}
    run_ids = [_run_id(thread, tool_call_id, attempt) for attempt in range(_ATTEMPTS)]
    for run_id in run_ids:
        if run_id in begun:
            return run_id, True
    for run_id in run_ids:
        try:
            if await settled(client.result(run_id, 0)) is None:
                return run_id, True
        except NoSuchRun:
            return run_id, False
    return None, False


def _run_id(thread: str, tool_call_id: str, attempt: int) -> str:
    return hashlib.sha256(repr((thread, tool_call_id, attempt)).encode()).hexdigest()[:32]


def _marks(config: RunnableConfig) -> list[tuple[int, dict[str, Any]]]:
    """With their places in the list of answers."""
    answers = getattr(_answers.scratchpad(config), "resume", None) or ()
    return [(at, answer) for at, answer in enumerate(answers) if _is_mark(answer)]


def _is_mark(answer: Any) -> bool:
    return isinstance(answer, dict) and answer.keys() == {_MARK, _WAITS}


def _discard(pad: Any) -> None:
    """The answer that the graph was resumed with: it has been used, or is to another question."""
    while pad.get_null_resume(True) is not None:
        pass


def _note_wait(config: RunnableConfig) -> None:
    """The last question waits for its next answer. Goes to the checkpointer with the interrupt."""
    marks = _marks(config)
    if marks:
        answers = _answers.scratchpad(config).resume
        at, mark = marks[-1]
        mark[_WAITS] = len(answers) - at
        config["configurable"][_answers.SEND]([(_answers.RESUME, list(answers))])
