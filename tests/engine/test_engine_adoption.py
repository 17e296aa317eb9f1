"""What a controller that was killed leaves is taken over by the next one, or removed, at every stage."""

import os
import signal
import subprocess

import pytest

from tests.support.needs import need

from .conftest import OWNER, Host, Lines, assert_ended, assert_group_ends, leftovers, needs_root


@pytest.mark.proves("engine: sweep", "engine: Containers outlive the process that made them")
def test_sweep_after_a_crash(host):
    assert host.probe("leave")["started"]
    said = host.probe("sweep")
    assert said["swept"] == ["1"]
    assert host.probe("sweep")["swept"] == ["0"]


@pytest.mark.proves("engine: adopt", "engine: Containers outlive the process that made them")
def test_adoption_after_a_crash(host):
    left = host.probe("leave")
    said = host.probe("adopt")
    assert set(said.keys()) == {"default_image", "adopting", "swept", "started", "memory", "removed"}
    assert said["started"] == left["started"] and said["swept"] == ["0", "0"]
    assert 0 < int(said["memory"][0].split()[0]) < 64 << 20


def test_adopted_guest_that_ends(host):
    left = host.probe("leave")
    adopting = subprocess.Popen(host.arguments("adopt", expect="gone"), stdout=subprocess.PIPE, text=True)
    try:
        while not next(adopting.stdout).startswith("started"):
            pass
        os.kill(int(left["started"][0]), signal.SIGKILL)
        rest = Lines(adopting.stdout.read())
        assert adopting.wait() == 0
    finally:
        adopting.kill()
        adopting.wait()
    assert "first process ended" in rest["gone"][0] and rest["removed"] == ["0"]


@pytest.mark.proves("engine: adopt")
def test_adoption_of_what_has_ended(host, request):
    """A container that ended while nobody looked, and one that was never made."""
    left = host.probe("leave")
    os.kill(int(left["started"][0]), signal.SIGKILL)
    assert_ended(int(left["started"][0]))
    if host.engine == "docker":  # which hears of it a moment later
        status, _ = request.getfixturevalue("docker").request("POST", f"/containers/limpet-{OWNER}-0/wait")
        assert status == 200
    for _ in range(2):
        said = host.probe("adopt")
        assert said["failed"][0].startswith("EngineError ") and said["removed"] == ["0"]
        assert not said["started"]


class SlowRuntime:
    """runc, but `run` says that it begins, and waits until it is let go on."""

    def __init__(self, home):
        self.path, self.begun, self.gate = home / "slow-runtime", home / "begun", home / "gate"
        for fifo in self.begun, self.gate:
            os.mkfifo(fifo)
        self.path.write_text(
            '#!/bin/bash\n'
            f'for word; do [[ $word != run ]] || {{ echo $$ >{self.begun}; read -r _ <{self.gate}; }}; done\n'
            'exec runc "$@"\n')
        self.path.chmod(0o755)

    def leave_in_the_middle(self, host):
        """A controller that is killed while the runtime is at it."""
        process = subprocess.Popen(host.arguments("leave"), stdout=subprocess.DEVNULL)
        pid = int(self.begun.read_text())
        process.kill()
        process.wait()
        return pid

    def go_on(self):
        self.gate.write_text("go\n")


@pytest.fixture
def slow(image, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    need("runc", "oci")
    runtime = SlowRuntime(tmp_path)
    host = Host("oci", image, tmp_path, {"oci": runtime.path})
    host.runtime = runtime
    yield host
    assert [path for path in leftovers(tmp_path) if path] == []


def follow(host, mode):
    return subprocess.Popen(host.arguments(mode), stdout=subprocess.PIPE, text=True)


@pytest.mark.proves("engine: adopt")
def test_adoption_while_the_runtime_starts_it(slow):
    slow.runtime.leave_in_the_middle(slow)
    adopting = follow(slow, "adopt")
    while not next(adopting.stdout).startswith("swept"):
        pass
    slow.runtime.go_on()
    said = Lines(adopting.stdout.read())
    assert adopting.wait() == 0
    assert said.keys() == ["started", "memory", "removed", "swept"]


def test_adoption_of_what_the_runtime_gave_up(slow):
    runtime = slow.runtime.leave_in_the_middle(slow)
    adopting = follow(slow, "adopt")
    while not next(adopting.stdout).startswith("swept"):
        pass
    os.kill(runtime, signal.SIGKILL)
    said = Lines(adopting.stdout.read())
    assert adopting.wait() == 0
    assert said.keys() == ["failed", "removed", "swept"]


@pytest.mark.proves("engine: sweep")
def test_sweep_while_the_runtime_starts_it(slow):
    """It is waited for: a container that it makes later would be nobody's."""
    slow.runtime.leave_in_the_middle(slow)
    sweeping = follow(slow, "sweep")
    assert next(sweeping.stdout).startswith("default_image")
    slow.runtime.go_on()
    assert Lines(sweeping.stdout.read())["swept"] == ["1"]
    assert sweeping.wait() == 0


@needs_root
def test_oci_pid_of_another_process(image, tmp_path):
    """A pid that was given to another process since is not taken for the container's."""
    host = Host("oci", image, tmp_path, {"oci": "runc"})
    left = host.probe("leave")
    [bundle] = (tmp_path / "runtime" / "bundles").iterdir()
    (bundle / "pid").write_text(str(os.getpid()))
    said = host.probe("adopt")
    assert said["failed"] and not said["started"] and said["removed"] == ["0"]
    assert_ended(int(left["started"][0]))
    assert leftovers(tmp_path) == ([], [], [])


@needs_root
def test_oci_that_ended_before_it_was_looked_at(image, tmp_path):
    """Whoever has its pid by then is not the container, and is left alone."""
    stranger = subprocess.Popen(["sleep", "600"])
    runtime = tmp_path / "hasty-runtime"
    runtime.write_text(
        '#!/bin/bash\n'
        'for word; do [[ $previous = --pid-file ]] && file=$word; previous=$word; done\n'
        f'[[ -z $file ]] || {{ runc "$@" && echo {stranger.pid} >"$file"; exit; }}\n'
        'exec runc "$@"\n')
    runtime.chmod(0o755)
    try:
        said = Host("oci", image, tmp_path, {"oci": runtime}).probe("life")
        assert said["failed"][0].startswith("EngineError ") and not said["started"]
        assert said["removed"] == ["0"]
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
    assert leftovers(tmp_path) == ([], [], [])


def test_local_adoption(local):
    left = local.probe("leave")
    said = local.probe("adopt")
    assert set(said.keys()) == {"default_image", "adopting", "swept", "started", "memory", "removed"}
    assert said["started"] == left["started"] and said["swept"] == ["0", "0"]
    assert_group_ends(int(left["started"][0]))
    assert local.probe("adopt")["failed"]


def test_local_sweep_after_a_crash(local):
    """Its link directory is what tells whose it is."""
    link = local.home / "runtime" / "link"
    link.mkdir()
    (link / "mode").write_text("stay")
    other = local.probe("leave")
    left = local.probe("leave", link=link)
    assert local.probe("sweep")["swept"] == ["1"]
    assert_group_ends(int(left["started"][0]))
    assert local.probe("adopt")["started"] == other["started"]
