"""What a gateway remembers of calls, and what requests may take: without a gateway."""

import asyncio
import contextlib
from types import SimpleNamespace

import limpet
import pytest
from limpet.serve import _log, _rates, _runs
from limpet.serve._keys import Owner
from limpet.serve._problems import Problem

ANNA, BEN = Owner("a" * 8, "anna"), Owner("b" * 8, "ben")
NOBODY = SimpleNamespace(running=SimpleNamespace(inc=lambda: None, dec=lambda: None), ran=lambda *said: None, failed=lambda error: None)
RESULT = SimpleNamespace(kind="python", status="ok", state="kept", artifacts={})
MEGABYTE = b"x" * (1 << 20)


async def ended(runs, owner, run_id, size=0, error=None):
    async def begin(run):
        run._output("stdout", "x" * size)
        if error is not None:
            raise error
        return RESULT

    run = runs.start(owner, run_id, None, "code", begin, lambda result: b"{}")
    await run.done
    await asyncio.sleep(0)
    return run


def test_calls_that_are_asked_again_are_counted_once():
    async def main():
        runs = _runs.Runs(None, NOBODY)
        for _ in range(1000):
            await ended(runs, ANNA, "again", 100_000, limpet.Unavailable("no controller"))
        kept = [await ended(runs, ANNA, str(n), 1000) for n in range(10)]
        assert [runs.known(ANNA, run.run_id) for run in kept] == kept

    asyncio.run(main())


def test_a_call_that_is_replaced_while_it_runs_is_not_counted():
    async def main():
        runs, go = _runs.Runs(None, NOBODY), asyncio.Event()

        async def begin(run):
            await go.wait()
            return RESULT

        found = runs.start(ANNA, "found", None, None, begin, lambda result: b"{}")
        posted = runs.start(ANNA, "found", None, "code", begin, lambda result: b"{}")
        go.set()
        await asyncio.wait([found.done, posted.done])
        await asyncio.sleep(0)
        assert runs.known(ANNA, "found") is posted
        assert runs._room.taken == {ANNA.id: _log._LOG + _log._EACH + len(b"{}")}

    asyncio.run(main())


def test_calls_of_one_do_not_displace_those_of_another():
    async def main():
        runs = _runs.Runs(None, NOBODY)
        mine = [await ended(runs, BEN, str(n)) for n in range(5)]
        for n in range(300):
            await ended(runs, ANNA, str(n))
        for n in range(40):
            await ended(runs, ANNA, f"large {n}", 2 << 20)
        assert [runs.known(BEN, run.run_id) for run in mine] == mine
        assert runs.known(ANNA, "0") is None and runs.known(ANNA, "large 39") is not None

    asyncio.run(main())


async def events(log, last_event_id=None):
    """The ids of those that a reader gets who comes now, or again."""
    log.close()
    frames = b"".join([frame async for frame in log.follow(log.after(last_event_id))])
    return [line[4:].decode() for line in frames.split(b"\n") if line.startswith(b"id: ")]


def session_of(runs, owner, number, megabytes):
    feed = runs.feed(owner, f"k{owner.id}.{number}")
    for _ in range(megabytes):
        feed.append("display", MEGABYTE)
    return feed


def test_events_of_all_sessions_of_one_have_a_sum_and_the_idle_ones_give_way():
    async def main():
        runs = _runs.Runs(None, NOBODY)
        bens = session_of(runs, BEN, 0, 5)
        busy = session_of(runs, ANNA, "busy", 3)
        feeds = []
        for number in range(50):
            feeds.append(session_of(runs, ANNA, number, 6))
            busy.append("output", b"{}")
        kept = [len(await events(feed)) for feed in feeds]
        assert kept == sorted(kept) and sum(kept) < 64 and kept[-8:] == [6] * 8
        assert len(await events(busy)) == 53 and len(await events(bens)) == 5

    asyncio.run(main())


def test_events_of_everybody_have_a_sum_and_who_has_most_loses_some():
    async def main():
        runs = _runs.Runs(None, NOBODY)
        bens = session_of(runs, BEN, 0, 5)
        many = [Owner(f"{number:08x}", "one of many") for number in range(20)]
        feeds = [session_of(runs, owner, number, 7) for owner in many for number in range(8)]
        assert sum([len(await events(feed)) for feed in feeds]) < 256 and len(await events(bens)) == 5

    asyncio.run(main())


def test_whoever_comes_again_hears_what_is_left_and_sees_how_much_was_lost():
    async def main():
        runs = _runs.Runs(None, NOBODY)
        feed = session_of(runs, ANNA, "idle", 4)
        first = f"{feed.mark}-1"
        for number in range(20):
            session_of(runs, ANNA, number, 6)
        feed.append("output", b"{}")
        assert await events(feed, first) == [f"{feed.mark}-5"]

    asyncio.run(main())


def test_displays_of_calls_that_have_ended_count_and_the_oldest_calls_are_forgotten():
    async def begin(run):
        for _ in range(8):
            run.tell("display", MEGABYTE)
        return RESULT

    async def main():
        runs, calls = _runs.Runs(None, NOBODY), []
        for number in range(30):
            calls.append(runs.start(ANNA, str(number), None, "code", begin, lambda result: b"{}"))
            await calls[-1].done
            await asyncio.sleep(0)
        known = [runs.known(ANNA, call.run_id) is call for call in calls]
        assert known == [False] * 23 + [True] * 7 and len(await events(calls[0].log)) == 9

    asyncio.run(main())


def test_a_session_that_has_been_closed_takes_nothing():
    async def main():
        runs = _runs.Runs(None, NOBODY)
        feed = session_of(runs, ANNA, "one", 6)
        session_of(runs, BEN, "another", 0)
        runs.forget(f"k{ANNA.id}.one")
        assert runs._room.taken == {BEN.id: _log._LOG} and len(await events(feed)) == 7

    asyncio.run(main())


def test_requests_under_way_are_counted(monkeypatch):
    monkeypatch.setattr(_rates, "_REQUESTS", 3)
    monkeypatch.setattr(_rates, "_BYTES", 100)
    charges = _rates.Charges()

    async def request(who, go, size=0):
        with charges.request():
            charges.owned(who)
            _rates.hold(size)
            await go.wait()

    async def refused(who, size=0):
        with pytest.raises(Problem) as problem:
            await request(who, go, size)
        assert (problem.value.status, problem.value.name) == (429, "LimitReached") and problem.value.headers

    async def main():
        begun = [asyncio.ensure_future(request("anna", go, 30)) for _ in range(3)]
        await asyncio.sleep(0)
        await refused("anna")
        begun.append(asyncio.ensure_future(request("ben", go, 60)))
        await asyncio.sleep(0)
        await refused("ben", 41)
        go.set()
        await asyncio.gather(*begun)
        await asyncio.gather(*(request(who, go, 100) for who in ("anna", "ben")))
        with contextlib.suppress(Problem):
            await request("ben", go, 101)
        assert not charges._requests and not charges._bytes

    go = asyncio.Event()
    asyncio.run(main())
