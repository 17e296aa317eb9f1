"""A JupyterLab on loopback with the limpet kernel, and a browser that looks at it.

Needs limpet[jupyter], JupyterLab and Selenium in this Python, Debian's chromium and chromium-driver, and the image of
the engine: oci, unless LIMPET_TEST_ENGINE names another one.
"""

import pytest

from tests.support.jupyter import install_kernel, jupyter_in
from tests.support.limpetd import running

from .figures import ENGINE
from .lab import Lab
from .page import Page


@pytest.fixture
def engine():
    return ENGINE


@pytest.fixture
def limpetd(engine):
    with running(engine) as controller:
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
