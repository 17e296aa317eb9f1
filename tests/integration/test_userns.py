"""User namespaces of containers of the engine oci: process 1 is nobody on the host."""

import os
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine

INSIDE = "open('/proc/self/uid_map').read().split()"
OWN = ["0", "20000", "1", "20001", "20001", "1", "20009", "20009", "1"]
HOSTS = ["0", "0", "4294967295"]


@pytest.fixture
def oci(own_limpetd):
    if own_limpetd.engine != "oci":
        pytest.skip("containers of oci have one")
    return own_limpetd


def seen(session):
    return eval(session.run(INSIDE).result)


def owner_of_first_process(controller, name):
    container = controller.sessions()[name].container
    pid = next(Path(controller.directory, "run").glob(f"*/bundles/{container}/pid")).read_text()
    return os.stat(f"/proc/{pid}").st_uid


def mounts(controller):
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [line.split()[1] for line in lines if f"{controller.directory}/run/" in line]


@pytest.mark.docker
@pytest.mark.proves("security: rights on the host after an escape")
def test_process_1_is_nobody_on_the_host(oci):
    with oci.start().client() as client:
        session = client.open("a")
        assert seen(session) == OWN
        assert owner_of_first_process(oci, "a") == 20000
        assert session.run("import os; os.stat('/usr').st_uid").result == "0"
        assert oci.stop() == 0
    assert mounts(oci) == []


@pytest.mark.docker
def test_what_a_call_stores_and_publishes(oci):
    with oci.start().client() as client:
        session = client.open("a")
        result = session.run("print('x' * 3_000_000); open('artifacts/f', 'w').write('figure')")
        assert Path(result.artifacts["/session/artifacts/f"]).read_text() == "figure"
        assert session.run(f"len(open({result.stdout_file!r}).read())").result == "3000001"


def test_what_is_mounted_is_not_for_writing(oci):
    with oci.start().client() as client:
        client.open("a")
        (images,) = [path for path in mounts(oci) if "/mapped/" in path]
        with pytest.raises(OSError, match="Read-only"):
            Path(images, "new").write_text("")


def test_data_of_a_spare_container(oci, tmp_path, monkeypatch):
    monkeypatch.setenv("LIMPET_POOL", "1")
    tmp_path.chmod(0o755)
    (tmp_path / "f").write_text("of the host")
    with oci.start().client() as client:
        session = client.open("a", data=str(tmp_path))
        assert session.run("open('/data/f').read()").result == "'of the host'"
        assert seen(session) == OWN


def test_another_controller(oci):
    with oci.start().client() as client:
        client.open("a").run("x = 1")
        oci.kill()
        oci.start()
        assert client.attach("a").run("x").result == "1"
        assert seen(client.open("b")) == OWN
        assert oci.stop() == 0
    assert mounts(oci) == []


def test_turned_off(oci, monkeypatch):
    monkeypatch.setenv("LIMPET_USERNS", "off")
    with oci.start().client() as client:
        assert seen(client.open("a")) == HOSTS
        assert owner_of_first_process(oci, "a") == 0


def test_where_it_cannot_be(oci):
    os.chmod(oci.directory, 0o700)
    reason = f"the directory {oci.directory} keeps others out"
    with oci.start().client() as client:
        assert seen(client.open("a")) == HOSTS
    assert reason in oci.said()
    said = subprocess.run(oci.command("--check"), capture_output=True, text=True).stdout
    assert reason in said
