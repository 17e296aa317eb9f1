"""Clients on other machines, over loopback."""

import pytest

from tests.support.controllers import name, quiet  # noqa: F401

from .door import opened


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for variable in ("LIMPET_KEY", "LIMPET_SERVER_KEY"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture(scope="package")
def door():
    """The controller that most tests share."""
    with opened() as door:
        yield door


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
