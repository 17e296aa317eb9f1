"""The gateway as a process, on real controllers, asked by HTTP clients.

Needs limpet[serve], httpx and openapi-spec-validator. LIMPET_TEST_ENGINES names the engines, by default local.
"""

import pytest

from tests.support.controllers import client, limpetd, name, own_limpetd, quiet  # noqa: F401
from tests.support.gateway import Gateway


@pytest.fixture(scope="package")
def gateway(limpetd, tmp_path_factory):  # noqa: F811
    """Without keys."""
    made = Gateway(limpetd.socket, tmp_path_factory.mktemp("gateway")).start()
    yield made
    made.stop()


@pytest.fixture(scope="package")
def guarded(limpetd, tmp_path_factory):  # noqa: F811
    """With keys of two people, `anna` and `ben`."""
    made = Gateway(limpetd.socket, tmp_path_factory.mktemp("guarded"), "--max-sessions", "100")
    made.anna, made.ben = made.key("create", "anna"), made.key("create", "ben")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def own_gateway(limpetd, tmp_path):  # noqa: F811
    """own_gateway(*options, socket=..., whole=..., **environment): one for this test, started."""
    made = []

    def start(*options, socket=None, start=True, whole=False, **environment):
        gateway = Gateway(socket or limpetd.socket, tmp_path, *options, environment=environment, whole=whole)
        made.append(gateway)
        return gateway.start() if start else gateway

    yield start
    for gateway in made:
        gateway.stop()


@pytest.fixture
def http(gateway):
    with gateway.client() as client:
        yield client


@pytest.fixture
def session(http, name):  # noqa: F811
    """The address of an open session."""
    opened = http.post("/v1/sessions", json={"name": name})
    assert opened.status_code == 201, opened.text
    yield f"/v1/sessions/{name}"
    http.delete(f"/v1/sessions/{name}")
