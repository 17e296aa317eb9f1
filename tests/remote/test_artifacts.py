"""Artifacts of a controller on another machine: fetched when they are wanted, and checked."""

import asyncio
import dataclasses
import hashlib

import limpet
import pytest

LARGE = "import os\nopen('artifacts/large', 'wb').write(os.urandom(5 << 20))"


def make(session, name, text):
    return session.run(f"_ = open('artifacts/{name}', 'w').write({text!r})").check()


def artifact_of(result, name):
    return next(path for path in result.artifacts if path.endswith(f"/{name}"))


def test_an_artifact_is_what_the_call_left(client, session, tmp_path):
    result = make(session, "a b.txt", "text")
    path = artifact_of(result, "a b.txt")
    assert client.artifact(result, path) == b"text"
    assert client.artifact(result, path, str(tmp_path / "copy")) is None
    assert (tmp_path / "copy").read_bytes() == b"text"


def test_one_of_many_pieces_is_whole(client, session, tmp_path):
    result = session.run(LARGE).check()
    path = artifact_of(result, "large")
    client.artifact(result, path, str(tmp_path / "copy"))
    assert hashlib.sha256((tmp_path / "copy").read_bytes()).hexdigest() == result.artifact_info[path].sha256


def test_the_asyncio_client_fetches_them_too(door, name):
    async def main():
        async with door.async_client() as client, await client.open(name) as session:
            result = await session.run("_ = open('artifacts/f', 'w').write('x')")
            return await client.artifact(result, artifact_of(result, "f"))

    assert asyncio.run(main()) == b"x"


def test_one_that_a_later_call_has_replaced_is_not_taken_for_it(client, session, tmp_path):
    first = make(session, "f", "first")
    second = make(session, "f", "second")
    assert client.artifact(second, artifact_of(second, "f")) == b"second"
    with pytest.raises(limpet.NoSuchFile, match="a later call"):
        client.artifact(first, artifact_of(first, "f"), str(tmp_path / "copy"))
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("path", ["/session/artifacts/none", "/etc/passwd", "/session/artifacts/../f", ""])
def test_what_the_call_has_not_published_is_not_there(client, session, path):
    result = make(session, "f", "x")
    with pytest.raises(limpet.NoSuchFile):
        client.artifact(result, path)


def test_it_is_there_after_the_session_and_of_calls_without_one(client, session):
    result = make(session, "f", "x")
    session.close()
    assert client.artifact(result, artifact_of(result, "f")) == b"x"
    alone = client.run("_ = open('artifacts/g', 'w').write('y')").check()
    assert client.artifact(alone, artifact_of(alone, "g")) == b"y"


def test_of_a_call_that_nobody_knows(client, session):
    result = dataclasses.replace(make(session, "f", "x"), run_id="f" * 32)
    with pytest.raises(limpet.NoSuchRun):
        client.artifact(result, artifact_of(result, "f"))
