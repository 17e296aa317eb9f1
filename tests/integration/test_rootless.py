"""The engine oci for a user who is not root: a user namespace of the user's subordinate ids."""

import os
import select
import subprocess
from pathlib import Path

import pytest

from tests.support.controllers import ENGINES
from tests.support.limpetd import NotStarted
from tests.support.rootless import USER, RootlessLimpetd, outside

from .killed import wait_for

pytestmark = pytest.mark.engine

BOMB = """
import os, time
children = []
try:
    while len(children) < 500:
        child = os.fork()
        if child == 0:
            time.sleep(600)
            os._exit(0)
        children.append(child)
except OSError as error:
    said = type(error).__name__
for child in children:
    os.kill(child, 9)
    os.waitpid(child, 0)
said, len(children) < 64
"""


@pytest.fixture
def rootless(request):
    if "oci" not in ENGINES:
        pytest.skip("only the engine oci is for users who are not root")
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")
    controller = RootlessLimpetd(**getattr(request, "param", {}))
    yield controller
    controller.stop()
    controller.remove()


def first_process(controller, session):
    (pid,) = Path(controller.directory, "run").glob(f"*/bundles/{controller.sessions()[session].container}/pid")
    return int(pid.read_text())


@pytest.mark.proves("engine: not_enforced")
def test_a_session_is_isolated(rootless):
    with rootless.start().client() as client, client.open("a", pids=64, memory="512m") as session:
        assert session.engine == "oci"
        assert session.not_enforced == ("memory", "cpus", "disk", "files")
        assert os.stat(f"/proc/{rootless.process.pid}").st_uid == USER
        assert os.stat(f"/proc/{first_process(rootless, 'a')}").st_uid == outside(20000)
        assert session.run("import os; os.getuid()").result == "20001"
        assert session.run("sorted(os.listdir('/sys/class/net'))").error.name == "FileNotFoundError"
        assert session.run("import socket; socket.create_connection(('192.0.2.1', 80), 5)").error.name == "OSError"
        assert session.run("import pandas; int(pandas.Series([1, 2]).sum())").result == "3"


def test_files_and_data(rootless, tmp_path):
    data = Path(rootless.directory, "data")
    data.mkdir()
    (data / "f").write_text("of the user")
    with rootless.start().client() as client, client.open("a", data=str(data)) as session:
        assert session.run("open('/data/f').read()").result == "'of the user'"
        assert session.run("open('/data/f', 'w')").error.name == "OSError"
        session.put(b"from outside", "in/put.txt")
        made = session.run("import os; open('artifacts/f', 'w').write(open('in/put.txt').read())")
        (path,) = made.artifacts.values()
        assert Path(path).read_text() == "from outside"
        assert os.stat(path).st_uid == USER
        long = session.run("print('x' * 3_000_000)")
        session.get(long.stdout_file, tmp_path / "long")
        assert (tmp_path / "long").stat().st_size == 3_000_001
    wait_for(lambda: not Path(rootless.directory, "state/sessions/a/files").exists())


def test_code_that_goes_too_far(rootless):
    with rootless.start().client() as client, client.open("a", pids=64, memory="512m", checkpoint="always") as session:
        session.run("x = 41")
        assert session.run("b = bytearray(2 << 30)").error.name == "MemoryError"
        assert session.run(BOMB).result == "('BlockingIOError', True)"
        crashed = session.run("os.kill(os.getpid(), 11)")
        assert (crashed.status, crashed.state) == ("crashed", "rolled_back")
        assert session.run("x + 1").result == "42"


def test_another_controller(rootless):
    with rootless.start().client() as client:
        client.open("a").run("x = 1")
        rootless.kill()
        rootless.start()
        session = client.attach("a")
        assert session.run("x + 1").result == "2"
        assert client.open("b").run("1").result == "1"
        process = os.pidfd_open(first_process(rootless, "a"))
        session.close()
        assert select.select([process], [], [], 60)[0], "its container runs on"
        os.close(process)
    assert rootless.stop() == 0
    assert rootless.leftovers() == {}


@pytest.mark.parametrize("rootless", [{"subids": "somebody:100000:65536\n"}], indirect=True)
def test_a_user_without_subordinate_ids_is_told_how_to_get_them(rootless):
    with pytest.raises(NotStarted, match="limpet-test has no subordinate ids"):
        rootless.start()
    said = subprocess.run(rootless.command("--check"), capture_output=True, text=True)
    assert said.returncode != 0
    advice = "usermod --add-subuids 165536-231071 --add-subgids 165536-231071 limpet-test"
    assert advice in said.stdout
    assert advice in rootless.said()


def test_a_client_sees_what_is_not_enforced(rootless):
    with rootless.start().client() as client:
        client.open("a")
    said = subprocess.run(
        [os.environ["LIMPET_BUILD"] + "/limpet", "--connect", rootless.socket, "open", "a"], capture_output=True, text=True, check=True
    )
    assert said.stdout == "attached to a (oci)\n"
    assert "does not enforce: memory, cpus, disk, files" in said.stderr
