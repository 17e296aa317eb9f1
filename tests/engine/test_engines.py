"""What a container is made of, and its life from creation to removal."""

import json
import os
import re
import socket
import struct
import subprocess

import pytest

from .conftest import Host, assert_group_ends, leftovers, needs_root

CAPABILITIES = "00000000000000e0"  # KILL, SETGID, SETUID


@pytest.mark.proves("engine: A container's life", "engine: create", "engine: memory")
def test_life(host):
    said = host.probe("life")
    assert said.keys() == ["default_image", "created", "started", "memory", "removed", "swept"]
    assert int(said["started"][0]) > 1
    assert 0 < int(said["memory"][0].split()[0]) < 64 << 20
    assert said["memory"][0].split()[1] == "0"
    assert said["swept"] == ["0"]


@pytest.mark.proves("security: gaining rights")
def test_identity(host):
    host.probe("life")
    report = host.report()
    status = report.table("status")
    assert status["Uid:"] == ["0"] * 4 and status["Gid:"] == ["0"] * 4
    assert all(group == "0" for group in status["Groups:"])
    assert status["CapPrm:"] == status["CapEff:"] == status["CapBnd:"] == [CAPABILITIES]
    assert status["CapAmb:"] == ["0" * 16]
    assert int(status["CapInh:"][0], 16) & ~int(CAPABILITIES, 16) == 0
    assert status["NoNewPrivs:"] == ["1"] and status["Seccomp:"] == ["2"]
    assert report["hostname"] == ["sandbox"] and report["pid"] == ["1"] and report["cwd"] == ["/"]
    assert report["oom_score_adj"] == ["50"]


def test_nothing_is_inherited_from_the_controller(host):
    host.probe("life")
    report = host.report()
    status = report.table("status")
    assert status["Cpus_allowed_list:"] == [f"0-{os.cpu_count() - 1}" if os.cpu_count() > 1 else "0"]
    assert report["nice"] == ["0"]
    assert int(status["SigBlk:"][0], 16) == 0 and int(status["SigIgn:"][0], 16) == 0
    assert [line.split()[0] for line in report["fd"]] == ["0", "1", "2"]
    variables = {line.partition("=")[0] for line in report["env"]}
    assert variables <= {"PATH", "HOME", "LANG", "MPLBACKEND", "MPLCONFIGDIR", "PYTHONDONTWRITEBYTECODE",
                         "OMP_NUM_THREADS", "HOSTNAME"}
    assert "OMP_NUM_THREADS=2" in report["env"]


@pytest.mark.proves("security: reaching the host's files")
def test_files(host):
    host.probe("life")
    report = host.report()
    written = {key: value[0] for key, value in report.table("write").items()}
    for directory in ["/", "/usr", "/data", "/data/sub", "/run/limpet", "/proc/sys/kernel/hostname"]:
        assert written[directory] == "EROFS", directory
    for directory in ["/session", "/work", "/tmp", "/home/user"]:
        assert written[directory] == "ok", directory
    mounts = report.mounts()
    for point in ["/session", "/work", "/tmp", "/home/user"]:
        assert {"rw", "nosuid", "nodev"} <= set(mounts[point]) and "noexec" not in mounts[point]
    for point in ["/run", "/dev/shm"]:
        assert {"nosuid", "nodev", "noexec"} <= set(mounts[point])
    assert "ro" in mounts["/data"] and "ro" in mounts["/run/limpet"]
    assert report["kallsyms"] == ["0"]


@pytest.mark.proves("engine: peer_is_first_process")
def test_guest_connects_as_the_first_process(host):
    with socket.socket(socket.AF_UNIX) as listener:
        directory = os.open(host.home / "link", os.O_PATH)  # the path would be too long
        listener.bind(f"/proc/self/fd/{directory}/s")
        os.chmod(host.home / "link" / "s", 0o600)
        listener.listen()
        said = host.probe("life")
        peer = listener.accept()[0]
        pid, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        peer.close()
        os.close(directory)
    assert host.report()["connect"] == ["host ok"]
    assert uid == 0 and said["started"] == [str(pid)]


def test_sub_mount_of_data_is_not_writable(host, submount):
    host.probe("life")
    report = host.report()
    assert report.table("write")["/data/sub"] == ["EROFS"]
    assert report["data"] and report["datasub"] in ([], ["inside"])
    assert (host.engine == "oci") == (report["datasub"] == ["inside"])
    assert [path.name for path in submount.iterdir()] == ["inside"]


def test_memory_without_processes_is_half_of_small_memory(host):
    host.probe("life", memory=64 << 20)
    sizes = {}
    for mount in host.report()["mount"]:
        options, _, filesystem = mount.partition(" - ")
        root, point, flags = options.split()[3:6]
        if filesystem.startswith("tmpfs ") and flags.startswith("rw") and root == "/":
            sizes |= {point: int(size) << 10 for size in re.findall(r"size=(\d+)k", filesystem)}
    assert sizes.pop("/dev/shm") == 32 << 20
    del sizes["/dev"]  # only the supervisor can write there
    assert sum(sizes.values()) <= 1 << 20


@pytest.mark.proves("security: kernel interfaces", "security: crash dumps that run programs on the host")
def test_system_calls(host):
    host.probe("life")
    results = {name: answer[0] for name, answer in host.report().table("syscall").items()}
    assert [results.pop(name, "ok") for name in ("unix", "mkfifo", "mknod")] == ["ok"] * 3
    assert results.pop("clone3") == "ENOSYS"
    assert set(results.values()) == {"EPERM"}, results


@pytest.mark.proves("security: crash dumps that run programs on the host")
def test_limits(host):
    host.probe("life")
    report = host.report()
    limits = report.table("rlimit")
    assert limits["core"] == ["1", "1"]
    assert limits["nofile"] == ["1024", "4096"]
    assert limits["fsize"] == [str(1 << 30)] * 2
    assert limits["sigpending"] == ["1024", "1024"]
    assert {answer[0] for answer in report.table("setrlimit").values()} == {"ok"}


@pytest.mark.proves("security: reaching the network")
def test_no_network(host):
    host.probe("life")
    names = {line.split(":")[0].strip() for line in host.report()["netdev"] if ":" in line}
    assert names == {"lo"}


def test_host_network_is_the_hosts(host):
    host.probe("life", network="host")
    names = {line.split(":")[0].strip() for line in host.report()["netdev"] if ":" in line}
    assert names == {name for _, name in socket.if_nameindex()}


@pytest.mark.proves("engine: memory")
def test_out_of_memory_is_counted(host):
    host.mode("oom")
    said = host.probe("life", memory=64 << 20)
    assert host.report()["oom"] == ["9"]
    assert said["memory"][0].split()[1] == "1"


@pytest.mark.proves("engine: A container's life")
def test_guest_that_ends(host):
    host.mode("exit")
    said = host.probe("life", expect="gone")
    assert said["gone"] and "first process ended" in said["gone"][0] or said["failed"]
    assert said["removed"] == ["0"]


@pytest.mark.proves("engine: create")
def test_missing_image(host):
    said = host.probe("life", image="no-such")
    [text] = said["refused"] or said["failed"]
    assert text.startswith("ImageMissing ") and text.endswith("limpet image build")
    assert "memory" not in said.keys()


def test_bad_image_name(host):
    for name in ["../tiny", "a b", ".", "a?x=1"]:
        assert host.probe("life", image=name)["refused"][0].startswith("BadRequest ")


def test_runtime_error_is_told_in_its_words(host):
    said = host.probe("life", scratch="/nonexistent-scratch")
    [text] = said["failed"]
    assert text.startswith("EngineError ") and "/nonexistent-scratch" in text
    assert said["removed"] == ["0"]


@pytest.mark.proves("engine: A container's life", "engine: remove")
def test_burst_removed_in_every_stage(host):
    said = host.probe("burst", count=9)
    assert len(said["created"]) == len(said["removed"]) == 9
    assert len(said["started"]) == 6 and not said["failed"]
    assert said["swept"] == ["0"]


@pytest.mark.proves("engine: check")
def test_check(host):
    said = host.probe("check")
    findings = {line.split(": ")[0]: line for line in said["finding"]}
    assert any(key.endswith(" image") for key in findings)
    assert any(key.endswith(" cgroups") for key in findings)
    assert "ok seccomp" in findings and "ok image" in findings, findings


@needs_root
def test_oci_has_no_bridge(image, tmp_path):
    host = Host("oci", image, tmp_path, {"oci": "runc"})
    assert host.probe("life", network="bridge")["refused"][0].startswith("BadRequest ")


@needs_root
@pytest.mark.proves("engine: open")
def test_oci_without_image_or_runtime(tmp_path):
    host = Host("oci", tmp_path, tmp_path, {"oci": "runc"})
    assert host.probe("life")["refused"][0].startswith("ImageMissing ")
    host = Host("oci", tmp_path, tmp_path / "other", {"oci": "no-such-runtime"})
    assert host.probe("life")["refused"][0].startswith("EngineError ")


def test_docker_container_outlives_its_daemon(docker, tmp_path):
    """With live restore a restart of the daemon is no end of the container."""
    host = Host("docker", tmp_path, tmp_path, {"docker": docker.socket})
    probe = subprocess.Popen(host.arguments("life", expect="gone"), stdout=subprocess.PIPE, text=True)
    try:
        while not next(probe.stdout).startswith("memory"):
            pass
        docker.stop()
        docker.process = docker.start()
        assert probe.poll() is None
        [container] = json.loads(docker.request("GET", "/containers/json")[1])
        docker.request("POST", f"/containers/{container['Id']}/kill")
        rest = probe.stdout.read()
        assert "gone the container's first process ended with exit code 137" in rest
        assert "removed 0" in rest and probe.wait(60) == 0
    finally:
        probe.kill()
        probe.wait()
    assert leftovers(tmp_path) == ([], [], [])


@pytest.mark.proves("engine: open")
def test_docker_not_there(tmp_path):
    host = Host("docker", tmp_path, tmp_path, {"docker": tmp_path / "none.sock"})
    [text] = host.probe("life")["refused"]
    assert text.startswith("EngineError ") and "none.sock" in text and "systemctl start docker" in text
    assert "fail socket" in {line.split(": ")[0] for line in host.probe("check")["finding"]}


@pytest.mark.proves("engine: engine_choose", "engine: name")
def test_choice(docker, image, tmp_path):
    host = Host("oci", image, tmp_path, {"oci": "runc"})
    assert host.probe("choose", docker=docker.socket)["chosen"] == ["docker"]
    assert host.probe("choose")["chosen"] == ["oci"]
    [text] = host.probe("choose", oci="no-such-runtime")["chosen"]
    assert "local" in text and "no-such-runtime" in text


def test_local_life(local):
    said = local.probe("life")
    assert said.keys() == ["default_image", "created", "started", "memory", "removed", "swept"]
    report = local.report()
    assert report["argument"] == ["--link", str(local.home / "link"), "--directory",
                                  str(local.home / "session"), "--same-user"]
    assert report["pid"] == report["sid"] == said["started"]
    assert [line for line in report["fd"]] == ["0 /dev/null", "1 /dev/null", "2 /dev/null"]


def test_local_guest_that_ends(local):
    local.mode("exit")
    said = local.probe("life", expect="gone")
    assert said["gone"] == ["the guest ended with exit code 7"] and said["removed"] == ["0"]


@pytest.mark.proves("engine: remove")
def test_local_guest_that_does_not_listen(local):
    """It ignores SIGTERM and has a child that does so too: both end."""
    local.mode("deaf")
    said = local.probe("life")
    assert said["removed"] == ["0"]
    assert_group_ends(int(said["started"][0]))


@pytest.mark.proves("engine: open")
def test_local_without_guest(local):
    [text] = local.probe("life", guest="/nonexistent/limpet-guest")["refused"]
    assert text.startswith("EngineError ") and "/nonexistent/limpet-guest" in text
