"""The gateway's web page in a browser.

Needs limpet[serve], httpx and Selenium in this Python, Debian's chromium and chromium-driver, and the image of the engine:
oci, unless LIMPET_TEST_ENGINE names another one.
"""

import os

import pytest

from tests.support.controllers import name, quiet  # noqa: F401
from tests.support.gateway import Gateway
from tests.support.limpetd import running
from tests.support.ports import free_port

from .page import Page

ENGINE = os.environ.get("LIMPET_TEST_ENGINE", "oci")


@pytest.fixture(scope="package")
def limpetd():
    with running(ENGINE) as controller:
        yield controller


@pytest.fixture(scope="package")
def gateway(limpetd, tmp_path_factory):
    made = Gateway(limpetd.socket, tmp_path_factory.mktemp("gateway"))
    made.anna = made.key("create", "anna")
    made.start(free_port())  # it is started again on it
    yield made
    made.stop()


@pytest.fixture(scope="package")
def browser(gateway, tmp_path_factory):
    page = Page(gateway, tmp_path_factory.mktemp("browser"))
    yield page
    page.close()


@pytest.fixture
def page(browser):
    """Signed in, at no session. In the end nothing may have gone wrong in it."""
    browser.sign_in()
    yield browser
    assert browser.complaints() == []


@pytest.fixture
def http(gateway):
    with gateway.client(gateway.anna) as client:
        yield client


@pytest.fixture
def session(http, page, name):  # noqa: F811
    """The address of a session that the page shows."""
    assert http.post("/v1/sessions", json={"name": name}).status_code == 201
    page.open(name)
    yield f"/v1/sessions/{name}"
    page.away()  # it would go on asking for what is no longer there
    http.delete(f"/v1/sessions/{name}")
