"""A controller in a container of a Docker Engine, as `limpet up` makes it."""

import os
import subprocess
import sys

import limpet
import pytest

BUILD = os.path.abspath(os.environ.get("LIMPET_BUILD", "build/bin"))

pytestmark = [pytest.mark.engine, pytest.mark.docker]


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """One whose Docker Engine has no controller."""
    if "docker" not in os.environ.get("LIMPET_TEST_ENGINES", ""):
        pytest.skip("needs a Docker Engine")
    monkeypatch.setenv("DOCKER_HOST", "unix://" + os.environ.get("LIMPET_DOCKER_SOCKET", "/var/run/docker.sock"))
    monkeypatch.setenv("LIMPETD", f"{BUILD}/limpetd")
    monkeypatch.setenv("LIMPET_IMAGE_TOOL", os.path.abspath("image/build"))
    monkeypatch.setenv("PATH", f"{BUILD}:{os.environ['PATH']}")
    monkeypatch.setenv("LIMPET_ARTIFACTS", str(tmp_path))
    if subprocess.run(["docker", "container", "inspect", "limpet"], capture_output=True).returncode == 0:
        pytest.skip("a container limpet is somebody's")
    yield str(tmp_path / "state")
    limpet_("down", "--all")


def limpet_(*words):
    return subprocess.run([sys.executable, "-m", "limpet.up", *words], capture_output=True, text=True)


def test_it_serves_is_upgraded_with_its_sessions_and_ends(machine):
    up = limpet_("up", "--directory", machine, "--memory", "512m")
    assert up.stdout == "docker://\n", up.stderr
    data = os.path.join(machine, "..", "table")
    os.mkdir(data)
    with open(os.path.join(data, "table.csv"), "w") as file:
        file.write("1,2")
    with limpet.Client("docker://") as client:
        session = client.open("demo", data=data)
        assert session.options["memory"] == 512 << 20
        assert {"disk", "files"} <= set(session.not_enforced)
        result = session.run("n = 41; open('artifacts/f', 'w').write(open('/data/table.csv').read())").check()
        (artifact,) = result.artifacts.values()
        assert open(artifact).read() == "1,2" and artifact.startswith(os.environ["LIMPET_ARTIFACTS"])
    assert "runs there already" in limpet_("up", "--memory", "1g").stderr
    assert limpet_("up", "--upgrade").returncode == 0
    with limpet.Client("docker://") as client:
        session = client.attach("demo")
        assert (session.run("n + 1").result, session.options["memory"]) == ("42", 512 << 20)
    assert limpet_("down", "--all").returncode == 0
    assert os.listdir(machine) == []


def test_what_does_not_start_says_why(machine):
    up = limpet_("up", "--directory", machine, "--memory", "much")
    assert up.returncode == 125 and "the controller does not start" in up.stderr and "memory" in up.stderr
    assert "has no container limpet" in limpet_("down").stderr
    up = limpet_("up", "docker://tcp://127.0.0.1:9")
    assert up.returncode == 125 and "127.0.0.1:9" in up.stderr
