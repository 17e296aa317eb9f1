"""install beside code_sandbox, as an agent's tool node calls it, with an index on loopback."""

import warnings

import pytest
from limpet.langgraph import code_sandbox, install_tool

from tests.support import index as indexes


@pytest.fixture
def index():
    with indexes.serving() as index:
        index.add("greeting")
        yield index


@pytest.fixture
def tools(own_limpetd, index):
    own_limpetd.start("--package-index", f"{index.url}/simple")
    with warnings.catch_warnings(), own_limpetd.client() as client:
        warnings.simplefilter("ignore")
        sandbox = code_sandbox(client, list_packages=False)
        yield [sandbox, install_tool(sandbox)]


def test_code_has_what_was_installed(call):
    call("code_sandbox", code="x = 41")
    assert call("install", packages=["greeting"]).content == "greeting 1.0"
    assert "value:\n('1.0', 41)" in call("code_sandbox", code="import greeting; greeting.version, x").text
    failed = call("install", packages=["nowhere"])
    assert failed.status == "error" and failed.content == "InstallFailed: there is no package 'nowhere' in the index"
    assert call("install", packages=["-r x"]).status == "error"
    assert "only in a session" in call("install", thread=None, packages=["greeting"]).content


def test_the_index_of_the_host(own_limpetd, name):
    """That of pip on this machine, which this suite was installed from."""
    own_limpetd.start()
    with warnings.catch_warnings(), own_limpetd.client() as client, client.open(name) as session:
        warnings.simplefilter("ignore")
        assert session.install(["cowsay==6.1"]).packages == {"cowsay": "6.1"}
        assert session.run("import cowsay; cowsay.__name__").check().result == "'cowsay'"
