import limpet
import pytest

from tests.support import fake


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    for name in ("LIMPET_SOCKET", "LIMPETD", "XDG_RUNTIME_DIR", "TMPDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LIMPET_AUTOSTART", "0")


@pytest.fixture
def controller(tmp_path):
    controller = fake.Controller(tmp_path / "limpet.sock").start()
    yield controller
    controller.stop()


@pytest.fixture
def client(controller):
    with limpet.Client(controller.path, reconnect_timeout=60) as client:
        yield client


@pytest.fixture
def session(client):
    return client.open("a")
