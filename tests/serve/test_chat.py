"""A conversation with a model that has the session. The model is one that says what the test has written down."""

import threading

import pytest

from tests.support.gateway import events, until
from tests.support.model import Model, code, text


@pytest.fixture
def model():
    made = Model()
    yield made
    made.stop()


@pytest.fixture
def chat(own_gateway, model, name):
    """(http, address of a session)"""
    gateway = own_gateway(LIMPET_CHAT_URL=model.url, LIMPET_CHAT_MODEL="scripted", LIMPET_CHAT_KEY="secret")
    with gateway.client() as http:
        http.post("/v1/sessions", json={"name": name})
        yield http, f"/v1/sessions/{name}"
        http.delete(f"/v1/sessions/{name}")


def say(http, session, words, **more):
    answer = http.post(f"{session}/chat", json={"text": words, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()["turn"]


def until_end(http, session, turn, kind="end"):
    """The events of the session up to that one."""
    heard = []
    with http.stream("GET", f"{session}/events") as stream:
        for _, name, data in events(stream):
            heard.append((name, data))
            if name == "chat" and (data["turn"], data["kind"]) == (turn, kind):
                return heard


def run(http, session, source):
    return http.post(f"{session}/run", json={"code": source}).json()


def test_the_model_runs_code_and_answers(chat, model):
    http, session = chat
    model.answers += [code("x = 6 * 7\nprint('from inside')\nx"), text("It is ", "42.")]
    assert http.get(f"{session}/chat").json() == {"model": "scripted", "running": False}
    heard = until_end(http, session, say(http, session, "What is it?"))
    said = [data for name, data in heard if name == "chat"]
    assert [each["kind"] for each in said] == ["turn", "text", "call", "runs", "text", "text", "end"]
    assert said[2]["code"].startswith("x = 6 * 7") and said[-1]["problem"] is None
    assert next(data for name, data in heard if name == "result")["run_id"] == said[2]["run_id"]
    assert "from inside" in model.last and "42" in model.last and model.keys == ["Bearer secret"] * 2
    assert run(http, session, "x")["result"] == "42"


def test_code_runs_after_approval_alone(chat, model):
    http, session = chat
    model.answers += [code("x = 1"), code("x = 2"), text("done")]
    turn = say(http, session, "go", ask_first=True)
    (first,) = [data for name, data in until_end(http, session, turn, "call") if data.get("kind") == "call"]
    assert run(http, session, "'x' in globals()")["result"] == "False"
    assert http.post(f"{session}/chat/approve", json={"run_id": first["run_id"], "allow": False}).status_code == 204
    until(lambda: len(model.asked) > 1, "the model is told")
    assert "does not want" in model.last
    calls = until(lambda: [d for n, d in until_end(http, session, turn, "denied") if d.get("kind") == "call"], "the first call")
    assert len(calls) == 1
    second = until(lambda: second_call(http, session), "the second call")
    assert http.post(f"{session}/chat/approve", json={"run_id": second, "allow": True}).status_code == 204
    until_end(http, session, turn)
    assert run(http, session, "x")["result"] == "2"
    assert http.post(f"{session}/chat/approve", json={"run_id": second, "allow": True}).status_code == 400


def second_call(http, session):
    with http.stream("GET", f"{session}/events") as stream:
        calls = []
        for _, name, data in events(stream):
            if name == "chat" and data["kind"] == "call":
                calls.append(data["run_id"])
                if len(calls) == 2:
                    return calls[1]
    return None


def test_a_turn_is_taken_back_with_its_variables(chat, model):
    http, session = chat
    run(http, session, "x = 'before'")
    model.answers += [code("x = 'after'"), text("changed"), text("again")]
    turn = say(http, session, "change it")
    until_end(http, session, turn)
    assert run(http, session, "x")["result"] == "'after'"
    assert http.post(f"{session}/chat/rewind", json={"turn": turn}).json() == {"text": "change it"}
    assert run(http, session, "x")["result"] == "'before'"
    until_end(http, session, say(http, session, "only this"))
    assert [each["role"] for each in model.asked[-1]["messages"]] == ["system", "user"]
    assert http.post(f"{session}/chat/rewind", json={"turn": turn}).status_code == 400


def test_it_is_stopped(chat, model):
    http, session = chat
    model.answers += [code("while True: pass"), text("fine")]
    turn = say(http, session, "loop")
    until_end(http, session, turn, "runs")
    busy = http.post(f"{session}/chat", json={"text": "and?"})
    assert (busy.status_code, busy.json()["name"]) == (429, "Busy")
    assert http.post(f"{session}/chat/stop").status_code == 204
    heard = until_end(http, session, turn)
    assert heard[-1][1]["problem"] == "stopped"
    run_id = next(data["run_id"] for name, data in heard if name == "run")
    assert http.get(f"/v1/runs/{run_id}").json()["status"] == "interrupted"
    until_end(http, session, say(http, session, "go on"))
    roles = [each["role"] for each in model.asked[-1]["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "user"]


@pytest.mark.parametrize(
    "answer, told", [(500, "status 500"), (["no json"], "malformed"), ([{"tool_calls": [{"index": 7}]}], "malformed")]
)
def test_a_model_that_fails(chat, model, answer, told):
    http, session = chat
    model.answers += [answer, text("better")]
    heard = until_end(http, session, say(http, session, "hello"))
    assert told in heard[-1][1]["problem"]
    heard = until_end(http, session, say(http, session, "again"))
    assert heard[-1][1]["problem"] is None


def test_a_model_that_calls_nonsense(chat, model):
    http, session = chat
    wrong = [{"tool_calls": [{"index": 0, "id": "1", "function": {"name": "rm", "arguments": "{"}}]}]
    model.answers += [wrong, text("sorry")]
    until_end(http, session, say(http, session, "hello"))
    assert "one tool, run_python" in model.last


def test_without_a_model(http, session):
    assert http.get(f"{session}/chat").json() == {"model": None, "running": False}
    answer = http.post(f"{session}/chat", json={"text": "hello"})
    assert answer.status_code == 400 and "chat_url" in answer.json()["detail"]


def test_a_silent_model_is_left(chat, model):
    http, session = chat
    silent = threading.Event()
    model.answers.append(silent)
    turn = say(http, session, "hello")
    until(lambda: model.asked, "the model is asked")
    http.post(f"{session}/chat/stop")
    assert until_end(http, session, turn)[-1][1]["problem"] == "stopped"
    silent.set()
