"""What every case of a run works with: the options, the build, and controllers that end with the run."""
import contextlib
import json
import os
import subprocess
from pathlib import Path

import jupyter_kernel
from controller import Controller
from runner import LeftOut

ROOT = Path(__file__).resolve().parent.parent.parent
FULL_SIZE = 1 << 30
# Holds a Docker Engine for as long as its standard input is open; says where its socket is.
DOCKER = """
cd "$1" && . scripts/lib.sh && . scripts/docker.sh && LOG=/dev/null
docker_start "$2" >&2
echo "$DOCKER_SOCKET"
read -r _ || true
docker_stop >&2
"""


class Bench:
    """`args` are the options of scripts/bench. What is entered in `stack` ends with the run."""

    def __init__(self, args, build, scratch, stack, say):
        self.args, self.build, self.scratch, self.say = args, build, Path(scratch), say
        self.engine = args.engine
        self._stack = stack
        self._main = self._docker = None

    @property
    def rounds(self):
        return self.args.rounds

    @property
    def costly_rounds(self):
        """Of what starts containers or takes seconds."""
        return min(self.rounds, 2 if self.args.quick else 5)

    @property
    def is_reduced(self):
        """Whether heaps are too small for the targets that are about large ones."""
        return self.args.size < FULL_SIZE

    @property
    def every(self):
        """How often a slow thing is done in one round."""
        return 2 if self.args.quick else 5

    def leave_out_of_quick(self):
        """What takes longer than --quick has for it."""
        if self.args.quick:
            raise LeftOut("not with --quick")

    @contextlib.contextmanager
    def controller(self, engine=None, **variables):
        """A controller of its own with these LIMPET_ variables besides."""
        made = Controller(self, engine or self.engine, variables)
        try:
            yield made.wait()
        finally:
            made.stop()

    @property
    def main(self):
        """The controller that most cases share: defaults, and no containers kept ready."""
        if self._main is None:
            self._main = self._stack.enter_context(self.controller())
        return self._main

    def engine_variables(self, engine):
        return {"LIMPET_DOCKER_SOCKET": self.docker_socket} if engine == "docker" else {}

    @property
    def docker_socket(self):
        """Of the Docker Engine; one is started for the run where none answers."""
        standard = os.environ.get("LIMPET_DOCKER_SOCKET", "/var/run/docker.sock")
        if Path(standard).is_socket():
            return standard
        if self._docker is None:
            self._docker = self._stack.enter_context(docker_engine())
        return self._docker

    def kernel(self, *packages):
        """A Jupyter kernel in a virtual environment beside the build that has these packages besides."""
        return jupyter_kernel.Kernel(self, packages)

    def image(self):
        """The root of the file system that sessions run in, with the oci engine."""
        state = Path(os.environ.get("LIMPET_STATE_DIR", "/var/lib/limpet"))
        rootfs = state / "images" / "default" / "rootfs"
        if not rootfs.is_dir():
            raise LeftOut("there is no image; make one with image/build build")
        return rootfs.resolve()


@contextlib.contextmanager
def docker_engine():
    data = Path(os.environ.get("LIMPET_STATE_DIR", "/var/lib/limpet"), "docker")
    holder = subprocess.Popen(["bash", "-euo", "pipefail", "-c", DOCKER, "bench", str(ROOT), str(data)], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    try:
        socket = holder.stdout.readline().strip()
        if not socket:
            raise LeftOut("no Docker Engine answers and none could be started")
        yield socket
    finally:
        holder.stdin.close()
        holder.wait()


def dump(lines, path):
    Path(path).write_text(json.dumps([line.as_dict() for line in lines], indent=1) + "\n")
