"""Containers of the engine without Limpet in them: floors of starting, and peers that run a program in one.

They are described as a session's container is, limits and hardening included, and run sleep in place of the guest.
"""
import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from figures import seconds
from runner import LeftOut

SLEEP = ["/usr/bin/sleep", "infinity"]
PYTHON = "/usr/bin/python3"


class PlainRunc:
    runs_with = "runc exec"

    def __init__(self, bench, controller, session):
        runtime = controller.env.get("LIMPET_OCI_RUNTIME", "runc")
        self.program = shutil.which(runtime)
        if not self.program:
            raise LeftOut(f"{runtime} is not installed")
        self.directory = bench.scratch / "plain"
        self.directory.mkdir(exist_ok=True)
        container = controller.row(session).container
        description = next(controller.runtime.glob(f"*/bundles/{container}/config.json"))
        self.config = json.loads(description.read_text())
        self.config["process"]["args"] = SLEEP
        for number, mount in enumerate(each for each in self.config["mounts"] if each["type"] == "bind"):
            mount["source"] = str(self.source(str(number), Path(mount["source"])))
        # Beside the session's.
        self.cgroup = os.path.dirname(self.config["linux"]["cgroupsPath"])

    def source(self, name, sessions):
        """Of a mount, its own, as the session's goes with the session: its view of the machine as it is, its disk as an empty directory."""
        own = self.directory / "sources" / name
        own.parent.mkdir(exist_ok=True)
        if sessions.is_file():
            shutil.copyfile(sessions, own)
        elif "views" in sessions.parts:
            shutil.copytree(sessions, own, dirs_exist_ok=True)
        else:
            own.mkdir(exist_ok=True)
        return own

    def command(self, *arguments):
        return [self.program, "--root", str(self.directory / "state"), *arguments]

    def _do(self, *arguments):
        subprocess.run(self.command(*arguments), check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    def start(self, name):
        """Seconds of creating and starting it."""
        bundle = self.directory / name
        bundle.mkdir()
        self.config["linux"]["cgroupsPath"] = os.path.join(self.cgroup, name)
        (bundle / "config.json").write_text(json.dumps(self.config))
        return seconds(self._do, "run", "--detach", "--bundle", str(bundle), name)

    def inside(self, name, *arguments):
        """The command that runs a program in it."""
        return self.command("exec", name, *arguments)

    def remove(self, name):
        with contextlib.suppress(subprocess.CalledProcessError):
            self._do("delete", "--force", name)
        shutil.rmtree(self.directory / name, ignore_errors=True)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("docker")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self.path)


class PlainDocker:
    runs_with = "docker exec"

    def __init__(self, bench, controller, session):
        self.socket = bench.docker_socket
        found = self._ask("GET", f"/containers/{controller.row(session).container}/json")
        self.body = {**found["Config"], "Entrypoint": SLEEP, "Cmd": [], "HostConfig": found["HostConfig"],
                     "Labels": {}, "Hostname": "plain"}

    def _ask(self, method, path, body=None):
        with contextlib.closing(UnixConnection(self.socket)) as connection:
            connection.request(method, path, json.dumps(body) if body is not None else None,
                               {"Content-Type": "application/json"})
            reply = connection.getresponse()
            said = reply.read()
        if reply.status >= 300:
            raise RuntimeError(f"docker: {method} {path}: {said.decode(errors='replace')[:300]}")
        return json.loads(said) if said else None

    def start(self, name):
        start = time.perf_counter()
        self._ask("POST", f"/containers/create?name={name}", self.body)
        self._ask("POST", f"/containers/{name}/start")
        return time.perf_counter() - start

    def inside(self, name, *arguments):
        return ["docker", "--host", f"unix://{self.socket}", "exec", name, *arguments]

    def remove(self, name):
        with contextlib.suppress(RuntimeError):
            self._ask("DELETE", f"/containers/{name}?force=true&v=true")


ENGINES = {"oci": PlainRunc, "docker": PlainDocker}


def plain(bench, controller, session):
    """Plain containers like that of an open session."""
    if bench.engine not in ENGINES:
        raise LeftOut(f"the engine {bench.engine} has no containers")
    return ENGINES[bench.engine](bench, controller, session)


@contextlib.contextmanager
def running(containers, name):
    """A plain container for as long as it takes."""
    try:
        containers.start(name)
        yield name
    finally:
        containers.remove(name)


def run_once(command):
    """Seconds of a command that must end well."""
    return seconds(subprocess.run, command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
