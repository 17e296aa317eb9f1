"""The peer that most people know: an ipykernel on the host, spoken to through jupyter_client."""
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

from peers import environment

DRIVER = Path(__file__).parent / "jupyter_driver.py"
PACKAGES = ("ipykernel", "jupyter_client")


class Kernel:
    """As a context manager it ends the kernel."""

    def __init__(self, bench, packages=()):
        python = environment(bench, (*PACKAGES, *packages))
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self._directory = tempfile.TemporaryDirectory(prefix="limpet-bench-", dir=memory)
        directory = self._directory.name
        env = {**os.environ, "IPYTHONDIR": f"{directory}/ipython", "JUPYTER_RUNTIME_DIR": f"{directory}/runtime",
               "PYTHONDONTWRITEBYTECODE": "1"}
        self.process = subprocess.Popen([python, DRIVER, directory], env=env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self.pid = int(re.fullmatch(r"ready (\d+)", self._expect())[1])

    def _expect(self):
        line = self.process.stdout.readline().strip()
        if not line:
            raise RuntimeError("the Jupyter kernel's driver ended")
        return line

    def _ask(self, what, code, **more):
        self.process.stdin.write(json.dumps({"do": what, "code": code, **more}) + "\n")
        self.process.stdin.flush()
        return [float(t) for t in self._expect().split()]

    def do(self, what, code):
        """Seconds that it took."""
        return self._ask(what, code)[0]

    def calls(self, code):
        """A subject or floor whose block is that many calls of the code."""
        return KernelCalls(self, code)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()
        self._directory.cleanup()


class KernelCalls:
    def __init__(self, kernel, code):
        self.kernel, self.code = kernel, code

    def block(self, count, gap=0.0):
        return self.kernel._ask("run", self.code, count=count)
