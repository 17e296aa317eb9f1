"""A JupyterLab on loopback with the limpet kernel, and a browser that looks at it.

Needs limpet[jupyter], JupyterLab and Selenium in this Python, Debian's chromium and chromium-driver, and the image of
the engine: oci, unless LIMPET_TEST_ENGINE names another one. `--screenshot FILE` keeps what is seen.
"""

import os
import pathlib
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "jupyter")]

from controller import Limpetd, install_kernel, jupyter_in  # noqa: E402
from lab import Lab  # noqa: E402
from page import Page  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--screenshot", metavar="FILE", help="write a PNG of the notebook there")


def pytest_configure(config):
    config.addinivalue_line("filterwarnings", "ignore::limpet.LimpetWarning")


@pytest.fixture
def limpetd():
    controller = Limpetd(os.environ.get("LIMPET_TEST_ENGINE", "oci"))
    yield controller
    controller.stop()


@pytest.fixture
def lab(limpetd, tmp_path):
    with jupyter_in(tmp_path):
        install_kernel("limpet", limpetd.socket)
        server = Lab(tmp_path)
        yield server
        server.stop()


@pytest.fixture
def page(lab, tmp_path):
    browser = Page(lab, tmp_path / "browser")
    yield browser
    browser.close()
