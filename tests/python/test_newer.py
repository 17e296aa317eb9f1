"""A controller that is newer than the client: what it says besides is passed over, and nothing breaks."""

import limpet
import pytest

from tests.support import fake

from . import asker, both
from .asker import call
from .test_results import FULL

VARIABLE = {"name": "x", "type": "int", "shape": None, "dtype": None, "bytes": None, "repr": "1"}
ROW = {
    "session": "a", "engine": "local", "container": None, "status": "idle", "created": 1.5, "idle": 2.5,
    "execution_count": 3, "epoch": 1, "memory": 4096,
}  # fmt: skip


@pytest.fixture(params=both.KINDS)
def client(request, controller):
    controller.newer = True
    with both.client(request.param, controller.path, reconnect_timeout=5) as client:
        yield client


def test_a_record(client, controller):
    controller.on("run", lambda request: request.reply(**FULL))
    controller.on("result", lambda request: request.reply(run_id=fake.RUN_ID, record=FULL))
    result = client.open("a").run("code")
    as_known = limpet.Result.from_record(FULL)
    assert result.to_dict().keys() == as_known.to_dict().keys()
    assert (result.changed, result.usage, result.error) == (as_known.changed, as_known.usage, as_known.error)
    assert (result.rolled_back_to, result.artifact_info) == (as_known.rolled_back_to, as_known.artifact_info)
    assert result.displays == as_known.displays and not hasattr(result, "newer_flag")
    assert client.result(fake.RUN_ID) == result


def test_events(client, controller):
    seen = []

    def run(request):
        request.send("output", {"stream": 1, "data": b"out"})
        request.send("display", {"data": {"text/plain": "shown"}, "metadata": {}, "is_result": False})
        cell.run(request)

    cell = asker.Cell(controller, call("f", 1))
    controller.on("run", run)
    client.open("a").run("code", on_stdout=seen.append, on_display=seen.append, tools={"f": lambda n: n + 1})
    assert (seen[0], seen[1].data, cell.value()) == ("out", {"text/plain": "shown"}, 2)


def test_sessions_and_state(client, controller):
    controller.on("sessions", lambda request: request.reply(controller={}, sessions=[ROW]))
    controller.on("checkpoints", lambda request: request.reply(checkpoints=[fake.checkpoint()]))
    controller.on("namespace", lambda request: request.reply(names=[VARIABLE], more=0))
    controller.on("interrupt", lambda request: request.reply(interrupted=True))
    session = client.open("a")
    assert client.sessions() == [limpet.SessionInfo(**ROW)]
    assert session.checkpoint().id == session.checkpoints()[0].id == fake.checkpoint()["id"]
    assert session.rollback("c1") == limpet.Rollback("c1", 3, 2, "kept", [])
    assert session.commit(session.branch("b").name) == limpet.Committed(execution_count=4, epoch=2)
    assert session.namespace() == [limpet.Variable("x", "int", repr="1")]
    assert session.interrupt() is True
    session.reset()
    session.close()


def test_errors(client, controller):
    controller.on("open", lambda request: request.fail(1103, "OptionsDiffer", options=["memory"]))
    with pytest.raises(limpet.OptionsDiffer) as raised:
        client.open("a", memory="1g")
    assert raised.value.options == ("memory",)


def test_features(client, controller):
    assert client.features() == {"asks", "of-the-future"}
    controller.on("hello", lambda request: request.reply(protocol=1, peer="limpetd/0", pid=1, engine="local"))
    assert client.features() == set(), "of one that is older than the word"
