"""Artifacts of a controller on another machine: fetched when they are wanted, and checked."""

import asyncio
import dataclasses
import hashlib
import os

import limpet
import pytest
from limpet._copying import _bringing

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


def copied(path):
    with open(path, "rb") as file:
        return file.read()


def test_the_map_names_files_of_this_machine(door, client, session, tmp_path):
    code = "import os\nos.makedirs('artifacts/deep')\nopen('artifacts/deep/ü ..%', 'w').write('first')\n_ = open('artifacts/..a', 'wb').write(os.urandom(5 << 20))"
    result = session.run(code).check()
    assert len(result.artifacts) == 2 and not result.skipped
    for path, local in result.artifacts.items():
        assert local.startswith(f"{tmp_path}/artifacts/{session.name}/")
        assert hashlib.sha256(copied(local)).hexdigest() == result.artifact_info[path].sha256
    assert client.result(result.run_id).artifacts == result.artifacts
    local = result.artifacts["/session/artifacts/deep/ü ..%"]
    later = session.run("_ = open('artifacts/deep/ü ..%', 'w').write('second')")
    assert later.artifacts == {"/session/artifacts/deep/ü ..%": local} and copied(local) == b"second"


def test_also_of_commands_of_calls_without_a_session_and_with_asyncio(door, client, session, name, tmp_path):
    assert [copied(path) for path in session.exec("echo x > artifacts/f").artifacts.values()] == [b"x\n"]
    alone = client.run("_ = open('artifacts/g', 'w').write('y')")
    assert [copied(path) for path in alone.artifacts.values()] == [b"y"]
    assert list(alone.artifacts.values()) == [f"{tmp_path}/artifacts/{alone.run_id}/g"]

    async def main():
        async with door.async_client(artifacts=tmp_path / "mine") as client, await client.open(f"{name}-a") as session:
            return (await session.run("_ = open('artifacts/f', 'w').write('x')")).artifacts

    assert asyncio.run(main()) == {"/session/artifacts/f": f"{tmp_path}/mine/{name}-a/f"}


def test_the_far_paths_stay_where_they_are_wanted(door, name):
    with door.client(artifacts=False) as client, client.open(name) as session:
        result = make(session, "f", "x")
    assert all(path.startswith(door.directory) for path in result.artifacts.values())


def test_what_cannot_be_copied_is_told_and_not_named(door, name, tmp_path):
    (tmp_path / "file").write_text("")
    with door.client(artifacts=tmp_path / "file") as client, client.open(name) as session:
        result = make(session, "f", "x")
    assert result.artifacts == {}
    assert "could not be copied" in result.skipped["/session/artifacts/f"]


@pytest.mark.parametrize("path", ["/session/artifacts/../../../../etc/x", "/session/artifacts/./x", "../../x", "/session/artifacts/a\\b:c"])
def test_no_name_of_the_other_machine_leads_out(path, tmp_path):
    fake = type("Said", (), {"session": "../..", "run_id": "f" * 32})()
    local = _bringing.place(str(tmp_path), fake, path)
    assert os.path.normpath(local) == local and local.startswith(f"{tmp_path}/%2E%2E/%2E%2E/") and "\\" not in local and ":" not in local
