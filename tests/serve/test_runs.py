"""What a gateway remembers of calls, and what requests may take: without a gateway."""

import asyncio
import contextlib
from types import SimpleNamespace

import limpet
import pytest
from limpet.serve import _rates, _runs
from limpet.serve._keys import Owner
from limpet.serve._problems import Problem

ANNA, BEN = Owner("a" * 8, "anna"), Owner("b" * 8, "ben")
NOBODY = SimpleNamespace(running=SimpleNamespace(inc=lambda: None, dec=lambda: None), ran=lambda *said: None, failed=lambda error: None)
RESULT = SimpleNamespace(kind="python", status="ok", state="kept")


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
        assert runs.known(ANNA, "found") is posted and runs._sizes[ANNA.id] == posted.kept

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
