"""The files for /data of a session, without a gateway."""

import asyncio

import limpet
import pytest
from limpet.serve import _uploads
from limpet.serve._problems import Problem


@pytest.fixture
def uploads(tmp_path):
    made = _uploads.Uploads(str(tmp_path), 1000)
    made.option("a")
    return made


async def pieces(*sizes, held=None):
    for size in sizes:
        yield b"x" * size
        await (asyncio.sleep(0) if held is None else held.wait())


def test_uploads_at_once_have_the_limit_of_one(uploads):
    async def many():
        writes = (uploads.write("a", str(n), pieces(100, 100, 100)) for n in range(40))
        return await asyncio.gather(*writes, return_exceptions=True)

    refused = [each for each in asyncio.run(many()) if each != 300]
    assert {type(each) for each in refused} == {Problem} and {each.status for each in refused} == {413}
    assert sum(uploads.list("a").values()) <= 1000

    async def rest():
        left = 1000 - sum(uploads.list("a").values())
        await uploads.write("a", "rest", pieces(left))  # what was refused takes no room
        with pytest.raises(Problem):
            await uploads.write("a", "more", pieces(1))

    asyncio.run(rest())
    assert sum(uploads.list("a").values()) == 1000


def test_the_room_of_a_file_that_is_replaced_counts_once(uploads):
    async def twice():
        await uploads.write("a", "file", pieces(800))
        held = asyncio.Event()
        first = asyncio.ensure_future(uploads.write("a", "file", pieces(900, held=held)))
        await asyncio.sleep(0)
        with pytest.raises(Problem):
            await uploads.write("a", "file", pieces(900))
        with pytest.raises(Problem):
            await uploads.write("a", "other", pieces(201))
        held.set()
        assert await first == 900

    asyncio.run(twice())
    assert uploads.list("a") == {"file": 900}


def test_empty_files_and_directories_are_counted(uploads, monkeypatch):
    monkeypatch.setattr(_uploads, "_MOST_ENTRIES", 20)

    async def many():
        for n in range(5):
            await uploads.write("a", f"{n}/b/c/file", pieces())
        with pytest.raises(Problem, match="20 files and directories"):
            await uploads.write("a", "one", pieces())
        await uploads.write("a", "0/b/c/file", pieces(3))  # in place of another

    asyncio.run(many())
    assert len(uploads.list("a")) == 5


def test_what_is_there_already_counts_for_the_next_gateway(uploads, tmp_path):
    asyncio.run(uploads.write("a", "file", pieces(800)))
    with pytest.raises(Problem):
        asyncio.run(_uploads.Uploads(str(tmp_path), 1000).write("a", "other", pieces(201)))


def test_an_upload_ends_with_its_session(uploads):
    async def meanwhile():
        held = asyncio.Event()
        upload = asyncio.ensure_future(uploads.write("a", "file", pieces(1, held=held)))
        while not uploads._accounts:
            await asyncio.sleep(0.01)
        uploads.remove("a")
        held.set()
        with pytest.raises(limpet.NoSuchSession):
            await upload

    asyncio.run(meanwhile())
    assert uploads.list("a") == {}
