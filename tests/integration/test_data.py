"""/data: what clients put there, and a directory of another machine's client."""

import os
import subprocess

import limpet
import pytest

from tests.support.controllers import client, limpetd, name, session  # noqa: F401

LIMPET = os.path.abspath(os.path.join(os.environ.get("LIMPET_BUILD", "build/bin"), "limpet"))
READ = "import os; open('/data/' + {!r}).read()[:9]"

pytestmark = [pytest.mark.engine, pytest.mark.docker]


@pytest.fixture(autouse=True)
def containers(limpetd):
    if not limpetd.isolates:
        pytest.skip("the engine local has no /data")


@pytest.fixture
def address(limpetd):
    return f"exec:LIMPET_SOCKET={limpetd.socket} {LIMPET} dial-stdio"


@pytest.fixture
def tree(tmp_path):
    top = tmp_path / "tree"
    (top / "below" / "empty").mkdir(parents=True)
    (top / "below" / "small").write_text("1,2")
    (top / "large").write_bytes(b"0123456789" * 100_000)
    (top / "link").symlink_to("below/small")
    top.chmod(0o700)
    (top / "below" / "small").chmod(0o600)
    return top


def seen(session):
    return session.run("import os; sorted(os.path.join(at, each) for at, *found in os.walk('/data') for each in found[0] + found[1])").result


ALL = "['/data/below', '/data/below/empty', '/data/below/small', '/data/large', '/data/link']"


@pytest.mark.parametrize("of", ["python", "command"])
def test_a_far_client_brings_its_directory(address, client, name, tree, of):
    if of == "python":
        with limpet.Client(address) as far:
            far.open(name, data=tree)
    else:
        subprocess.run([LIMPET, "--connect", address, "open", "--data", tree, name], check=True, stdout=subprocess.DEVNULL)
    session = client.attach(name)
    assert seen(session) == ALL
    assert session.run(READ.format("link")).result == "'1,2'" and session.run(READ.format("large")).result == "'012345678'"
    assert session.run("open('/data/new', 'w')").error.name == "OSError"
    assert session.options["data"] is None
    client.close_session(name)


def test_what_a_session_has_is_not_copied_again(address, name, tree):
    with limpet.Client(address) as far, far.open(name, data=tree) as session:
        (tree / "more").write_text("x")
        assert seen(far.open(name, data=tree)) == seen(session) == ALL


def test_a_directory_that_is_refused_leaves_no_session(address, client, name, tree):
    (tree / "out").symlink_to("/etc")
    with limpet.Client(address) as far:
        with pytest.raises(limpet.BadRequest, match="links that lead out of it"):
            far.open(name, data=tree)
        with pytest.raises(limpet.BadRequest, match="there is no directory '/nowhere'"):
            far.open(name, data="/nowhere")
        with pytest.raises(limpet.BadRequest, match="on another one: open.. a session with it"):
            far.run("1", data=tree)
    with pytest.raises(limpet.NoSuchSession):
        client.attach(name)


def test_files_are_put_there_at_any_time(client, session):
    session.put(b"1,2", "/data/sub/table.csv")
    session.put(b"1,2,3", "/data/sub/table.csv")
    assert session.run(READ.format("sub/table.csv")).result == "'1,2,3'"
    with pytest.raises(limpet.BadRequest, match="is a directory"):
        session.put(b"", "/data/sub")


def test_they_survive_a_reset_and_a_rollback(session):
    session.put(b"1", "/data/f")
    session.checkpoint("before", files=True)
    session.put(b"2", "/data/f")
    session.rollback("before")
    assert session.run(READ.format("f")).result == "'2'"
    session.reset()
    assert session.run(READ.format("f")).result == "'2'"


def test_they_come_with_a_fork_and_survive_sleep(session):
    session.put(b"1", "/data/f")
    with session.fork() as fork:
        assert fork.run(READ.format("f")).result == "'1'"
        fork.sleep()
        assert fork.run(READ.format("f")).result == "'1'"
        fork.put(b"2", "/data/f")
    assert session.run(READ.format("f")).result == "'1'"


def test_a_directory_of_the_controllers_machine_is_only_read(client, name, tmp_path):
    tmp_path.chmod(0o755)
    with client.open(name, data=tmp_path) as session:
        with pytest.raises(limpet.BadRequest, match="which the session only reads"):
            session.put(b"1", "/data/f")
        assert os.listdir(tmp_path) == []


def test_they_count_as_disk(limpetd, client, name, tree):
    if limpetd.engine != "oci":
        pytest.skip("only oci has disks here")
    (tree / "huge").write_bytes(os.urandom(48 << 20))
    with client.open(name, disk="32m") as session:
        for path in tree, tree / "huge":
            with pytest.raises(limpet.FileFailed, match="No space left.*more `disk`"):
                session.put(path, "/data/there")
