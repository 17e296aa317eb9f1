"""What the gateway keeps for sessions, without a controller."""

import asyncio
import types

from limpet import AsyncClient
from limpet.serve._gateway import Gateway
from limpet.serve._keys import ANONYMOUS
from limpet.serve._log import _EACH, Log
from limpet.serve._settings import Settings


class Client(AsyncClient):
    """Has the sessions that were opened; what `meanwhile` does happens after it has looked and before it says so."""

    def __init__(self):
        self.names, self.meanwhile = [], None

    async def sessions(self):
        rows = [types.SimpleNamespace(session=name) for name in self.names]
        if self.meanwhile:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        return rows

    async def open(self, name, **options):
        self.names.append(name)
        return types.SimpleNamespace(name=name, _closed=False, options=options)

    async def attach(self, name):
        from limpet import NoSuchSession

        raise NoSuchSession(name)


def test_uploads_of_a_session_that_is_opened_meanwhile_stay(tmp_path):
    async def scene():
        gateway = Gateway(Settings(state_dir=str(tmp_path)))
        gateway.client = client = Client()
        await gateway.open(ANONYMOUS, "old", {})
        gateway.runs.feed(ANONYMOUS, "old")
        assert (tmp_path / "data" / "old").is_dir()

        async def meanwhile():
            await gateway.open(ANONYMOUS, "new", {})
            gateway.runs.feed(ANONYMOUS, "new")

        client.names.clear()
        client.meanwhile = meanwhile
        await gateway.sweep()
        assert not (tmp_path / "data" / "old").exists() and (tmp_path / "data" / "new").is_dir()
        assert gateway.runs.watched() == {"new"}
        await gateway.sweep()
        assert (tmp_path / "data" / "new").is_dir()

    asyncio.run(scene())


def test_a_log_loses_the_oldest_and_tells_each_reader_what_is_left():
    async def scene():
        log = Log(5 * (20 + _EACH))
        for number in range(10):
            log.append("output", b"%d" % number * 20)
        log.close()
        heard = b"".join([frame async for frame in log.follow(0)])
        assert heard.count(b"event: output") == 5 and b"9999" in heard and b"4444" not in heard
        last = heard.split(b"id: ")[-1].split(b"\n")[0].decode()
        assert [frame async for frame in log.follow(log.after(last))] == []
        for unknown in (None, "", "x", f"{log.mark}-", f"{log.mark}-9e9", "other-10", f"{log.mark}-{'9' * 30}"):
            assert log.after(unknown) == 0

    asyncio.run(scene())


def test_readers_wait_for_what_comes():
    async def scene():
        log = Log(1000)

        async def read():
            return [frame async for frame in log.follow(0)]

        readers = [asyncio.ensure_future(read()) for _ in range(3)]
        await asyncio.sleep(0)
        log.append("output", b"1")
        await asyncio.sleep(0)
        log.append("result", b"2")
        log.close()
        for frames in await asyncio.gather(*readers):
            assert b"".join(frames).count(b"id: ") == 2

    asyncio.run(scene())
