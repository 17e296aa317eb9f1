"""What the kernel separates, counts and bounds of a container, read on the host while it runs."""

import os

import pytest

from .conftest import OWNER

NAMESPACES = ["cgroup", "ipc", "mnt", "net", "pid", "uts"]


def namespaces(pid):
    return {name: os.readlink(f"/proc/{pid}/ns/{name}") for name in NAMESPACES}


def read(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


def group(pid, controller):
    """The directory of its control group, and whether it is one of version 2."""
    named = {part: path for _, names, path in (line.split(":", 2) for line in read(f"/proc/{pid}/cgroup").splitlines())
             for part in names.split(",")}
    for line in read("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        if kind == ("cgroup" if controller in named else "cgroup2") and (kind == "cgroup2" or controller in options.split(",")):
            return left.split()[4] + named.get(controller, named.get("")), kind == "cgroup2"
    pytest.fail(f"nothing mounted has {controller}")


@pytest.fixture
def left(host):
    """What a probe said that has ended as if it had crashed; its container runs."""
    said = host.probe("measure")
    yield said
    assert host.probe("sweep")["swept"] == ["1"]


@pytest.fixture
def pid(left):
    return int(left["started"][0])


@pytest.mark.proves("security: other processes", "security: reaching the host's files")
def test_namespaces_are_its_own(host, pid):
    its, ours = namespaces(pid), namespaces("self")
    assert [name for name in NAMESPACES if its[name] == ours[name]] == []


@pytest.mark.proves("security: too much memory, processes, processor time")
def test_memory_processes_and_time_are_bounded(host, pid):
    memory, unified = group(pid, "memory")
    if unified:
        assert read(memory, "memory.max") == f"{512 << 20}\n"
        assert not os.path.exists(f"{memory}/memory.swap.max") or read(memory, "memory.swap.max") == "0\n"
    else:
        assert read(memory, "memory.limit_in_bytes") == f"{512 << 20}\n"
        both = f"{memory}/memory.memsw.limit_in_bytes"
        assert not os.path.exists(both) or read(both) == f"{512 << 20}\n"
    assert read(group(pid, "pids")[0], "pids.max") == "64\n"
    cpu, unified = group(pid, "cpu")
    quota, period = read(cpu, "cpu.max").split() if unified else (read(cpu, f"cpu.cfs_{what}_us") for what in ("quota", "period"))
    assert int(quota) / int(period) == 1.5


@pytest.mark.proves("engine: groups")
def test_groups_are_those_that_the_kernel_has(host, left, pid):
    named = left.table("group")
    assert named["memory"] == [group(pid, "memory")[0], str(int(group(pid, "memory")[1]))]
    assert named["time"][0] in (group(pid, "cpuacct")[0], group(pid, "cpu")[0])
    assert named["idle"] == [group(pid, "cpu")[0]]


@pytest.mark.proves("engine: time")
def test_time_is_what_the_kernel_counts(host, left):
    result, nsec = left["time"][0].split()
    directory, unified = left.table("group")["time"]
    counted = read(directory, "cpu.stat" if int(unified) else "cpuacct.usage").split()
    now = int(counted[1]) * 1000 if int(unified) else int(counted[0])
    assert result == "ok" and 0 < int(nsec) <= now


@pytest.mark.proves("engine: set_idle")
def test_idle_is_told_to_the_kernel_and_outlives_the_process(host, left):
    file = os.path.join(left.table("group")["idle"][0], "cpu.idle")
    if os.path.exists(file):
        assert left["idle"] == ["ok"] and read(file) == "1\n"
    else:
        assert left["idle"] != ["ok"]


@pytest.mark.proves("engine: attach_packages")
def test_packages_take_the_place_of_those_before(host):
    """And those that cannot be had take no place."""
    for name in "one", "two":
        (host.state / "packages" / name / "base" / name).mkdir(parents=True, exist_ok=True)
    said = host.probe("measure", packages="one,two,none")
    assert said["packages"][:2] == ["one ok", "two ok"] and "none are not there" in said["packages"][2]
    [pid] = said["started"]
    try:
        assert os.listdir(f"/proc/{pid}/root/opt/limpet/packages") == ["two"]
        mounts = [line.split() for line in read(f"/proc/{pid}/mountinfo").splitlines()]
        assert [set(fields[5].split(",")) >= {"ro", "nosuid", "nodev"} for fields in mounts if fields[4] == "/opt/limpet/packages"] == [True]
    finally:
        assert host.probe("sweep")["swept"] == ["1"]


@pytest.mark.proves("engine: leave", "engine: close")
def test_a_container_that_is_left_runs_on(host):
    """Once started, and while it is being adopted; and the engine can be closed."""
    started = host.probe("forget")["started"]
    handed = host.probe("hand-on")
    assert handed.keys() == ["default_image", "adopting"]
    said = host.probe("adopt")
    assert said["started"] == started and said["removed"] == ["0"]


@pytest.mark.proves("engine: sweep")
def test_containers_of_another_owner_are_not_swept(host, monkeypatch):
    """Each owner has a runtime directory of its own, as controllers have."""
    host.probe("leave")
    with monkeypatch.context() as another:
        another.setenv("PROBE_OWNER", f"{OWNER}x")
        (host.home / "another").mkdir()
        assert host.probe("sweep", runtime=host.home / "another")["swept"] == ["0"]
    assert host.probe("sweep")["swept"] == ["1"]


@pytest.mark.proves("engine: image")
def test_the_default_image_is_named(host):
    [name] = host.probe("sweep")["default_image"]
    assert name == {"oci": "tiny", "docker": "default"}[host.engine]
    assert host.probe("life", default="another")["default_image"] == ["another"]
