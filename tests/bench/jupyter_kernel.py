"""The peer that most people know: an ipykernel on the host, spoken to through jupyter_client."""
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from runner import LeftOut

DRIVER = Path(__file__).parent / "jupyter_driver.py"
PACKAGES = ("ipykernel", "jupyter_client")
INSTALL_SECONDS = 300
tried = {}  # packages: why they cannot be had, or None


def has(python, packages):
    imports = [python, "-c", f"import {', '.join(packages)}"]
    return python.exists() and subprocess.run(imports, capture_output=True).returncode == 0


def install(bench, python, packages):
    """None, or why they cannot be had."""
    bench.say(f"installing {' '.join(packages)} from PyPI into {python.parent.parent}")
    try:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", python.parent.parent], check=True, capture_output=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--retries", "1", "--timeout", "20", *packages],
                       check=True, capture_output=True, timeout=INSTALL_SECONDS)
    except (subprocess.SubprocessError, OSError) as error:
        return f"{' '.join(packages)} could not be installed from PyPI ({type(error).__name__})"
    return None


def environment(bench, packages):
    """The Python of a virtual environment with these packages, made on first use."""
    packages = (*PACKAGES, *packages)
    python = bench.build.parent / "jupyter" / "bin" / "python"
    if packages not in tried:
        tried[packages] = None if has(python, packages) else install(bench, python, packages)
    if tried[packages]:
        raise LeftOut(tried[packages])
    return python


class Kernel:
    """As a context manager it ends the kernel."""

    def __init__(self, bench, packages=()):
        python = environment(bench, packages)
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
