"""Packages over HTTP, from an index on loopback."""

import pytest

from tests.support import index as indexes
from tests.support.gateway import Gateway


@pytest.fixture
def http(own_limpetd, tmp_path):
    with indexes.serving() as index:
        index.add("greeting", files={"greeting.py": "word = 'hello'"})
        own_limpetd.start("--package-index", f"{index.url}/simple")
        gateway = Gateway(own_limpetd.socket, tmp_path).start()
        try:
            with gateway.client() as client:
                assert client.post("/v1/sessions", json={"name": "a"}).status_code == 201
                yield client
        finally:
            gateway.stop()


def test_installed_and_imported(http):
    made = http.post("/v1/sessions/a/install", json={"packages": ["greeting"]}).json()
    assert made["packages"] == {"greeting": "1.0"} and made["lock"].startswith("greeting==1.0") and not made["cached"]
    assert http.post("/v1/sessions/a/run", json={"code": "import greeting; greeting.word"}).json()["result"] == "'hello'"
    refused = http.post("/v1/sessions/a/install", json={"packages": ["there-is-none"]})
    assert refused.status_code == 422 and refused.json()["name"] == "InstallFailed" and "there-is-none" in refused.json()["detail"]
    assert http.post("/v1/sessions/a/install", json={"packages": ["--index-url=http://x"]}).json()["name"] == "BadRequest"
