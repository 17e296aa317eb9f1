"""A JupyterLab on loopback with the limpet kernel, and a browser that looks at it.

Needs limpet[jupyter], JupyterLab and Selenium in this Python, Debian's chromium and chromium-driver, and the image of
the engine: oci, unless LIMPET_TEST_ENGINE names another one. `--screenshot FILE` keeps what is seen.
"""

import os

import pytest

from tests.support.jupyter import install_kernel, jupyter_in
from tests.support.limpetd import running

from .lab import Lab
from .page import Page


def pytest_addoption(parser):
    parser.addoption("--screenshot", metavar="FILE", help="write a PNG of the notebook there")


@pytest.fixture
def limpetd():
    with running(os.environ.get("LIMPET_TEST_ENGINE", "oci")) as controller:
        yield controller


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
