"""The engines against the real things: runc (and crun where installed), a Docker Engine started for the test,
and plain processes. The image holds nothing but tests/engine/probe_guest.c, which reports what it sees."""

import fnmatch
import http.client
import io
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import tarfile
import time

import pytest

from tests.support.needs import need

OWNER = os.environ["PROBE_OWNER"] = f"probe{os.getpid()}"  # another run's containers are not ours
BIN = pathlib.Path(os.environ.get("LIMPET_BUILD", "build/bin")).resolve()
PROBE, GUEST = BIN / "engine_probe", BIN / "probe_guest"
DIRECTORIES = ["session", "data", "work", "run", "tmp", "home/user", "proc", "dev", "sys", "etc", "opt/limpet/packages"]
DOCKER_CGROUP = f"limpet-dockerd-{os.getpid()}"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def pytest_configure(config):
    missing = [str(program) for program in (PROBE, GUEST) if not program.exists()]
    if missing:
        raise pytest.UsageError(
            f"{' and '.join(missing)} are not there: build with -DBUILD_TESTING=ON, and set LIMPET_BUILD where the "
            "programs are not in build/bin"
        )


def groups(pattern):
    """Control groups of that name, innermost first, while others of the machine come and go."""
    walk = os.walk("/sys/fs/cgroup", topdown=False)
    return [path for path, _, _ in walk if fnmatch.fnmatch(os.path.basename(path), pattern)]


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("docker", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(str(self.path))


class Docker:
    """A Docker Engine of our own, with everything it makes below one directory."""

    def __init__(self, home):
        self.home, self.socket = home, home / "docker.sock"
        self.log = open(home / "log", "wb")
        self.process = self.start()

    def start(self):
        """Returns when it listens, which it says as it would to systemd."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            ready.bind(f"\0{self.home}")
            ready.settimeout(60)
            process = subprocess.Popen(
                ["dockerd", "--host", f"unix://{self.socket}", "--data-root", self.home / "data",
                 "--exec-root", self.home / "exec", "--pidfile", self.home / "pid", "--bridge", "none",
                 "--iptables=false", "--storage-driver", "vfs", "--live-restore",
                 "--cgroup-parent", f"/{DOCKER_CGROUP}"],
                stdout=self.log, stderr=self.log, start_new_session=True,
                env={**os.environ, "NOTIFY_SOCKET": f"@{self.home}"})
            while b"READY=1" not in ready.recv(4096):
                pass
        return process

    def request(self, method, path, body=None):
        connection = UnixConnection(self.socket)
        connection.request(method, path, body, {"Content-Type": "application/x-tar"})
        response = connection.getresponse()
        return response.status, response.read()

    def load(self, rootfs):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            tar.add(rootfs, arcname=".")
        path = "/images/create?fromSrc=-&repo=limpet&tag=default"
        status, text = self.request("POST", path, buffer.getvalue())
        assert status == 200, text

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)

    def end(self):
        if self.process.poll() is None:
            for container in json.loads(self.request("GET", "/containers/json?all=true")[1]):
                self.request("DELETE", f"/containers/{container['Id']}?force=true")
            self.stop()
        self.log.close()
        for line in reversed(pathlib.Path("/proc/mounts").read_text().splitlines()):
            if line.split()[1].startswith(str(self.home)):
                subprocess.run(["umount", "-l", line.split()[1]], check=True)
        for group in groups(DOCKER_CGROUP):
            os.rmdir(group)
        shutil.rmtree(self.home)


@pytest.fixture(scope="package")
def image(tmp_path_factory):
    """A state directory with the one image."""
    state = tmp_path_factory.mktemp("state")
    rootfs = state / "images" / "tiny" / "rootfs"
    for name in DIRECTORIES + ["usr/lib/limpet"]:
        (rootfs / name).mkdir(parents=True)
    shutil.copy(GUEST, rootfs / "usr/lib/limpet/limpet-guest")
    (state / "images" / "default").symlink_to("tiny")
    return state


@pytest.fixture(scope="package")
def docker(image, tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    need("dockerd", "docker")
    engine = Docker(tmp_path_factory.mktemp("docker"))
    try:
        engine.load(image / "images" / "tiny" / "rootfs")
        yield engine
    finally:
        engine.end()


class Host:
    """The directories of one container, and the probe run on them."""

    def __init__(self, engine, state, home, options):
        self.engine, self.state, self.options = engine, state, options
        self.home = home
        for name in ["runtime", "session", "scratch/tmp", "scratch/home", "scratch/work", "scratch/data", "data/sub", "link"]:
            (home / name).mkdir(parents=True)
        (home / "data" / "file").touch()
        self.mode("stay")

    def mode(self, name):
        (self.home / "link" / "mode").write_text(name)

    def arguments(self, mode, **options):
        values = {
            "state": self.state, "runtime": self.home / "runtime", "session": self.home / "session",
            "scratch": self.home / "scratch", "data": self.home / "data", "link": self.home / "link",
            "guest": GUEST,
            **self.options, **options,
        }
        return [PROBE, mode, self.engine, *(f"{key}={value}" for key, value in values.items())]

    def probe(self, mode, **options):
        done = subprocess.run(self.arguments(mode, **options), capture_output=True, text=True, timeout=120)
        print(done.stdout, done.stderr)
        assert done.returncode == 0, done.stdout + done.stderr
        return Lines(done.stdout)

    def report(self):
        return Lines((self.home / "session" / "report.txt").read_text())


class Lines:
    """Lines "key value": a key gives the values of all its lines."""

    def __init__(self, text):
        self.pairs = [line.partition(" ")[::2] for line in text.splitlines()]

    def __getitem__(self, key):
        return [value for name, value in self.pairs if name == key]

    def keys(self):
        return [name for name, _ in self.pairs]

    def table(self, key):
        return {value.split()[0]: value.split()[1:] for value in self[key]}

    def mounts(self):
        """Mount point: options."""
        return {value.split()[4]: value.split()[5].split(",") for value in self["mount"]}


def leftovers(home):
    mounts = [line for line in pathlib.Path("/proc/mounts").read_text().splitlines() if f"{home}/" in line]
    bundles = list((home / "runtime").glob("*/*"))
    return [line for line in mounts if "/data/sub" not in line], groups(f"limpet-{OWNER}*"), bundles


ISOLATING = ["runc", "crun", "docker"]


def hybrid():
    """Both versions of cgroups have controllers, which crun refuses."""
    controllers = pathlib.Path("/sys/fs/cgroup/unified/cgroup.controllers")
    return controllers.exists() and controllers.read_text().strip() != ""


@pytest.fixture(params=ISOLATING)
def host(request, image, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if request.param == "docker":
        host = Host("docker", tmp_path, tmp_path, {"docker": request.getfixturevalue("docker").socket})
    elif request.param == "crun" and not shutil.which("crun"):
        pytest.skip("crun is not installed; runc is the one that has to be")
    elif request.param == "crun" and hybrid():
        pytest.skip("crun does not work with hybrid cgroups")
    else:
        need(request.param, "oci")
        host = Host("oci", image, tmp_path, {"oci": request.param})
    yield host
    assert leftovers(tmp_path) == ([], [], [])


@pytest.fixture
def local(tmp_path):
    return Host("local", tmp_path, tmp_path, {})


def assert_ended(pid):
    """Reaped or not, it runs no more."""
    try:
        end = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    assert select.select([end], [], [], 10)[0]
    os.close(end)


def assert_group_ends(group):
    """Its processes have been killed; the last may still be on its way."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    os.killpg(group, signal.SIGKILL)
    pytest.fail("a process of the guest outlived it")


@pytest.fixture
def submount(host):
    """A writable mount below the data directory."""
    path = host.home / "data" / "sub"
    subprocess.run(["mount", "-t", "tmpfs", "none", path], check=True)
    (path / "inside").touch()
    yield path
    subprocess.run(["umount", path], check=True)
