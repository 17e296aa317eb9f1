"""Fixtures: a controller for each engine of LIMPET_TEST_ENGINES (default: local), and clients of them."""

import contextlib
import os
import uuid

import pytest

from .limpetd import Limpetd, NotStarted, running

ENGINES = [name for name in os.environ.get("LIMPET_TEST_ENGINES", "local").replace(",", " ").split()]


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.delenv("LIMPET_SOCKET", raising=False)


@pytest.fixture(scope="package", params=ENGINES)
def limpetd(request):
    """The controller that most tests share."""
    with running(request.param) as controller:
        yield controller


@pytest.fixture(params=ENGINES)
def own_limpetd(request):
    """A controller for one test, not started."""
    controller = Limpetd(request.param)
    try:
        yield controller
    finally:
        if controller.stop() != 0:  # of a test that failed: the next one takes its sessions over, and ends them
            with contextlib.suppress(NotStarted):
                controller.start()
            controller.stop()
        controller.remove()


@pytest.fixture
def client(limpetd):
    with limpetd.client() as client:
        yield client


@pytest.fixture
def name():
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def session(client, name):
    with client.open(name) as session:
        yield session
