import os
import pathlib
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("LIMPET_BUILD", pathlib.Path(__file__).parents[2] / "build/bin")).resolve()


class Cli:
    """The `limpet` command in a clean environment, with a socket of its own."""

    def __init__(self, directory):
        self.socket = directory / "s"
        self.directory = directory
        self.program = str(BUILD / "limpet")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("LIMPET")}
        self.environment |= {"LIMPET_SOCKET": str(self.socket), "LIMPET_AUTOSTART": "0"}

    def start(self, *arguments, environment=None, **options):
        pipes = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return subprocess.Popen([self.program, *map(str, arguments)], cwd=self.directory,
                                env=self.environment | (environment or {}), **pipes | options)

    def __call__(self, *arguments, input=None, environment=None, timeout=60, **options):
        stdin = subprocess.DEVNULL if input is None else subprocess.PIPE
        process = self.start(*arguments, environment=environment, stdin=stdin, **options)
        try:
            process.out, process.err = process.communicate(input, timeout=timeout)
        finally:
            process.kill()
        if process.out is not None:
            process.out = process.out.decode("utf-8", "surrogateescape")
        process.err = process.err.decode("utf-8", "surrogateescape")
        assert "Sanitizer" not in process.err, process.err
        return process


@pytest.fixture
def limpet(tmp_path):
    return Cli(tmp_path)


@pytest.fixture(scope="module")
def real():
    """The `limpet` of a real controller."""
    from .real import Real

    real = Real()
    yield real
    real.remove()
