"""Clients on other machines, over loopback."""

import pytest

from tests.support.controllers import name, quiet  # noqa: F401
from tests.support.limpetd import Limpetd

from .door import opened


@pytest.fixture(autouse=True)
def no_keys(monkeypatch, tmp_path):
    for variable in ("LIMPET_KEY", "LIMPET_SERVER_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("LIMPET_ARTIFACTS", str(tmp_path / "artifacts"))


@pytest.fixture(scope="package")
def door():
    """The controller that most tests share."""
    with opened() as door:
        yield door


@pytest.fixture(scope="package")
def far():
    """A controller that commands reach."""
    far = Limpetd("local")
    try:
        yield far.start()
        assert far.stop() == 0, far.said()
    finally:
        far.stop()
        far.remove()


@pytest.fixture
def own_door():
    with opened() as door:
        yield door


@pytest.fixture
def client(door):
    with door.client() as client:
        yield client


@pytest.fixture
def session(client, name):  # noqa: F811
    with client.open(name) as session:
        yield session
