"""limpet serve on real controllers, used by the unmodified clients of E2B.

Needs e2b and e2b-code-interpreter beside limpet[serve]. LIMPET_TEST_ENGINES names the engines, by default local.
"""

import contextlib

import pytest

from tests.support.controllers import limpetd, name, own_limpetd, quiet  # noqa: F401
from tests.support.gateway import Gateway
from tests.support.gateway import until as until_it_is

UNLIMITED = ("--rate-limit-max", "0")


@pytest.fixture(scope="package")
def gateway(limpetd, tmp_path_factory):  # noqa: F811
    """With a key for each of two people."""
    gateway = Gateway(limpetd.socket, tmp_path_factory.mktemp("serve"), *UNLIMITED, "--max-sessions", "100")
    gateway.ada, gateway.bob = gateway.key("create", "ada"), gateway.key("create", "bob")
    gateway.start()
    yield gateway
    gateway.stop()


def options(gateway, key=None):
    """How a client of E2B is pointed at it."""
    return {"api_key": key or gateway.ada, "api_url": gateway.url, "sandbox_url": gateway.url}


@pytest.fixture
def where(gateway):
    return options(gateway)


@contextlib.contextmanager
def made(cls, where, **more):
    """A sandbox, which is ended."""
    sandbox = cls.create(**where, **more)
    try:
        yield sandbox
    finally:
        sandbox.kill(**where)


@pytest.fixture
def sandbox(where):
    """A sandbox of the code interpreter, for one test."""
    from e2b_code_interpreter import Sandbox

    with made(Sandbox, where) as sandbox:
        yield sandbox


@pytest.fixture(scope="package")
def shared(gateway):
    """A sandbox for tests that leave nothing behind that matters."""
    from e2b_code_interpreter import Sandbox

    with made(Sandbox, options(gateway), timeout=3600) as sandbox:
        yield sandbox


@pytest.fixture
def protect(limpetd):  # noqa: F811
    """Takes a checkpoint of a sandbox's variables, to which a crash goes back."""

    def protect(sandbox):
        with limpetd.client() as client:
            row = next(row for row in client.sessions() if row.session.endswith(sandbox.sandbox_id))
            client.attach(row.session).checkpoint()

    return protect


@pytest.fixture
def isolates(limpetd):  # noqa: F811
    return limpetd.isolates


def until(condition):
    """Waits for something to become true, and returns it."""
    return until_it_is(condition, "what this test waits for")
