"""Jupyter's directories and kernels of a test's own."""

import contextlib
import pathlib
import subprocess
import sys

import pytest

from . import CLIENT

FIGURES = next((pathlib.Path(__file__).parents[2] / "build/environments/figures/lib").glob("python3*/site-packages"), None)
"""Where sessions without an image find what draws in a page."""


@contextlib.contextmanager
def jupyter_in(home):
    """Jupyter's directories are there, and what it starts finds the client of this tree."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JUPYTER_PATH", "JUPYTER_PREFER_ENV_PATH", "LIMPET_SOCKET"):
            patch.delenv(name, raising=False)
        for name in ("JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
            patch.setenv(name, str(home / name.lower()))
        patch.setenv("JUPYTER_NO_CONFIG", "1")
        patch.setenv("LIMPET_AUTOSTART", "0")
        patch.setenv("PYTHONPATH", str(CLIENT))
        patch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
        yield home


def install_kernel(name, address, *options):
    """Installs a kernel and returns its name."""
    command = [sys.executable, "-m", "limpet.jupyter", "install", "--user", "--name", name]
    subprocess.run([*command, "--address", address, *options], check=True, capture_output=True)
    return name
