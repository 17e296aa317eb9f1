"""Calls under way and their records, for everybody who looks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from .. import AsyncClient, BadRequest, Display, Error, Result
from ._keys import Owner
from ._log import Log, Room
from ._plain import encode
from ._problems import Problem, problem_of
from ._questions import Questions
from ._watch import Watch

_OUTPUT = 2 << 20  # characters of one call that its events have; the record says where the rest is
_EVENTS = 16 << 20  # bytes of the events of one call
_FEED = 8 << 20  # bytes of what is remembered of a session for those who come later
_OF_ONE = 64 << 20  # bytes of both for one owner
_IN_ALL = 256 << 20
_ENDING: set[asyncio.Task[None]] = set()  # asyncio itself does not hold them


class Run:
    """A call. Its log has its events, of which the last is ``result``, or ``problem`` where there is no record."""

    def __init__(
        self,
        run_id: str,
        owner: Owner,
        place: str | None,
        said: Any,
        feed: Log | None,
        log: Log,
        inner: str | None = None,
    ) -> None:
        self.run_id = run_id
        self.inner = inner or run_id
        """What the controller calls it."""
        self.owner = owner
        self.place = place
        self.said = said
        self.log = log
        self.record = b""
        self.artifacts: Mapping[str, str] = {}
        """Their paths on this machine, by those in the container."""
        self.problem: Problem | None = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.questions = Questions(run_id, self.tell)
        self._feed = feed
        self._written = 0
        self._left_out = 0
        self._heard = False

    def tell(self, name: str, data: bytes) -> None:
        """An event."""
        self.log.append(name, data)
        if self._feed is not None:
            self._feed.append(name, data)

    def begun(self, kind: str, **said: Any) -> None:
        """What runs, for those who look at the session."""
        if self._feed is not None:
            self._feed.append("run", encode({"run_id": self.run_id, "kind": kind, **said}))

    async def on_stdout(self, text: str) -> None:
        self._output("stdout", text)
        await self._deliver_first()

    async def on_stderr(self, text: str) -> None:
        self._output("stderr", text)
        await self._deliver_first()

    async def on_display(self, display: Display) -> None:
        self.tell("display", encode({"run_id": self.run_id, **display.to_dict(), "update": display.update}))
        await self._deliver_first()

    def end(self, result: Result, record: bytes) -> None:
        """There is the record."""
        if self._left_out:
            self._tell_output("stderr", f"\n[limpet: {self._left_out} more characters are not shown here]\n")
        self.record, self.artifacts = record, result.artifacts
        self.tell("result", record)
        self._close()

    def fail(self, problem: Problem) -> None:
        """There is none."""
        self.problem = problem
        self.tell("problem", problem.body[:-1] + b', "run_id": "%s"}' % self.run_id.encode())
        self._close()

    def _close(self) -> None:
        self.log.close()
        if not self.done.done():
            self.done.set_result(None)

    async def _deliver_first(self) -> None:
        """Readers get the first event before the rest is looked at: the end of a short call comes together with it."""
        if not self._heard:
            self._heard = True
            await asyncio.sleep(0)

    def _output(self, stream: str, text: str) -> None:
        room = _OUTPUT - self._written
        if len(text) > room:
            self._left_out += len(text) - max(room, 0)
            text = text[: max(room, 0)]
        self._written += len(text)
        if text:
            self._tell_output(stream, text)

    def _tell_output(self, stream: str, text: str) -> None:
        self.tell("output", encode({"run_id": self.run_id, "stream": stream, "text": text}))


class Runs:
    """All that is known of calls here. What is not known any more the controller still has for a while."""

    def __init__(self, client: AsyncClient, watch: Watch) -> None:
        self._client = client
        self._watch = watch
        self._runs: dict[tuple[str, str], Run] = {}
        self._feeds: dict[str, Log] = {}
        self._room = Room(_OF_ONE, _IN_ALL)
        self._ended = False

    def feed(self, owner: Owner, inner: str) -> Log:
        """What happens in a session of this owner, its branches and contexts included."""
        base = inner.partition("/")[0]
        if base not in self._feeds:
            self._feeds[base] = Log(_FEED, self._room, owner.id)
            self._feeds[base].closed = self._ended
        return self._feeds[base]

    def onlooked(self, owner: Owner, run_id: str, inner: str) -> Run | None:
        """A call that is not asked for here, for those who look at its session; None where nobody has yet."""
        feed = self._feeds.get(inner.partition("/")[0])
        return None if feed is None else Run(run_id, owner, inner, None, feed, Log(0))

    def watched(self) -> set[str]:
        """The sessions whose events are remembered."""
        return set(self._feeds)

    def alone(self, owner: Owner) -> int:
        """How many calls without a session run."""
        running = (run for run in self._runs.values() if not run.done.done())
        return sum(run.place is None and run.owner == owner for run in running)

    def end(self) -> None:
        """Those who look at sessions have to leave."""
        self._ended = True
        for feed in self._feeds.values():
            feed.close()

    def changed(self, owner: Owner, inner: str, what: str, **more: Any) -> None:
        """Tells those who look at the session that something else than a call has changed it."""
        self.feed(owner, inner).append("changed", encode({"what": what, **more}))

    def known(self, owner: Owner, run_id: str) -> Run | None:
        """A call of this owner."""
        return self._runs.get((owner.id, run_id))

    def start(
        self,
        owner: Owner,
        run_id: str,
        place: str | None,
        said: Any,
        begin: Callable[[Run], Awaitable[Result]],
        show: Callable[[Result], bytes],
        inner: str | None = None,
    ) -> Run:
        """Begins a call, or joins the one of this id.

        Args:
            owner: Whose it is.
            run_id: Of the call.
            place: What the controller calls its session; None without one.
            said: Tells what was asked for: the same id with something else is a mistake. None where somebody looks for
                a call that this gateway has not begun.
            begin: Asks the controller.
            show: The record, as the owner sees it.
            inner: What the controller calls the call, if that is not its id.
        """
        known = self.known(owner, run_id)
        found_only = known is not None and known.said is None and said is not None
        if known is not None and known.problem is None and not found_only:
            if (known.place, known.said) != (place, said):
                raise BadRequest("this run_id belongs to another call")
            return known
        if known is not None:
            self._drop(known)
        feed = None if place is None else self.feed(owner, place)
        run = Run(run_id, owner, place, said, feed, Log(_EVENTS, self._room, owner.id), inner)
        self._runs[owner.id, run_id] = run
        task = asyncio.ensure_future(self._run(run, begin, show))
        _ENDING.add(task)
        task.add_done_callback(_ENDING.discard)
        return run

    def forget(self, inner: str) -> None:
        """The session was closed: those who look at it are told, and leave."""
        feed = self._feeds.pop(inner, None)
        if feed is not None:
            feed.leave()
            feed.append("closed", b"{}")
            feed.close()

    async def _run(
        self, run: Run, begin: Callable[[Run], Awaitable[Result]], show: Callable[[Result], bytes]
    ) -> None:
        self._watch.running.inc()
        try:
            result = await begin(run)
            run.end(result, show(result))
            self._watch.ran(result.kind, result.status, result.state)
        except Exception as error:
            if not isinstance(error, (Error, Problem)):
                self._watch.failed(error)
            run.fail(problem_of(error))
        finally:
            self._watch.running.dec()
            run.log.give_way = lambda: self._drop(run)

    def _drop(self, run: Run) -> None:
        """It is not known any more: the controller still has its record for a while."""
        run.log.leave()
        if self._runs.get((run.owner.id, run.run_id)) is run:
            del self._runs[run.owner.id, run.run_id]
