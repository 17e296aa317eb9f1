"""Code, commands, their events and their questions."""

import asyncio
import json
import os
import socket
import threading

import httpx
import pytest

from tests.support.gateway import events, until

STREAM = {"Accept": "text/event-stream"}


def run(http, session, code, **more):
    answer = http.post(f"{session}/run", json={"code": code, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def new_id():
    return os.urandom(16).hex()


def test_variables_stay(http, session):
    assert run(http, session, "x = 6")["status"] == "ok"
    record = run(http, session, "print('hi'); x * 7")
    assert (record["stdout"], record["result"], record["state"]) == ("hi\n", "42", "kept")
    assert record["session"] == session.rpartition("/")[2]


def test_an_error_is_a_record(http, session):
    record = run(http, session, "1/0")
    assert (record["status"], record["error"]["name"], record["state"]) == ("error", "ZeroDivisionError", "kept")


def test_commands_of_notebooks_are_understood_where_they_are_asked_for(http, session):
    assert run(http, session, "x = 3\n!echo $((x + 4))", notebook=True)["stdout"] == "4\n"
    assert run(http, session, "!echo")["error"]["name"] == "SyntaxError"


def test_a_crash_tells_what_became_of_the_state(http, session):
    run(http, session, "x = 1")
    record = run(http, session, "import os; os._exit(3)")
    assert record["status"] == "exited" and record["state"] in ("rolled_back", "lost")


def test_events_come_while_the_code_runs(http, session):
    """The answer to input() can be given only while the stream is open: it comes before the end."""
    code = "print('before', flush=True)\nname = input('who? ')\nprint('after', name)"
    with http.stream("POST", f"{session}/run", json={"code": code, "input": True}, headers=STREAM) as response:
        assert response.headers["content-type"] == "text/event-stream"
        names, text = [], ""
        for _, kind, data in events(response):
            names.append(kind)
            if kind == "output":
                text += data["text"]
            if kind == "ask":
                assert (data["kind"], data["prompt"]) == ("input", "who? ") and "before" in text
                said = {"run_id": data["run_id"], "ask": data["ask"], "line": "ada"}
                assert http.post(f"{session}/answers", json=said).status_code == 204
                assert http.post(f"{session}/answers", json=said).status_code == 400  # once
    assert names[-1] == "result" and "after ada" in text and data["status"] == "ok"


def test_tools_are_answered_by_requests(http, session):
    code = "import limpet_tools\nlimpet_tools.add(2, b=3)"
    with http.stream("POST", f"{session}/run", json={"code": code, "tools": ["add"]}, headers=STREAM) as response:
        for _, kind, data in events(response):
            if kind == "ask":
                assert (data["kind"], data["name"], data["args"], data["kwargs"]) == ("tool", "add", [2], {"b": 3})
                said = {"run_id": data["run_id"], "ask": data["ask"], "value": 5}
                assert http.post(f"{session}/answers", json=said).status_code == 204
    assert kind == "result" and data["result"] == "5"


def test_a_tool_may_fail(http, session):
    code = "import limpet_tools\ntry:\n    limpet_tools.add()\nexcept Exception as e:\n    print(e)"
    with http.stream("POST", f"{session}/run", json={"code": code, "tools": ["add"]}, headers=STREAM) as response:
        for _, kind, data in events(response):
            if kind == "ask":
                wrong = {"run_id": data["run_id"], "ask": data["ask"]}
                assert http.post(f"{session}/answers", json=wrong).status_code == 400
                said = {**wrong, "error": {"name": "KeyError", "message": "no such sum"}}
                assert http.post(f"{session}/answers", json=said).status_code == 204
    assert kind == "result" and "no such sum" in data["stdout"]


def test_a_stream_that_broke_goes_on_where_it_was(http, session):
    code = "print('one', flush=True)\ninput()\nprint('two')"
    with http.stream("POST", f"{session}/run", json={"code": code, "input": True}, headers=STREAM) as response:
        for last, kind, data in events(response):
            if kind == "ask":
                break
    asked = data
    said = {"run_id": asked["run_id"], "ask": asked["ask"], "line": ""}
    assert http.post(f"{session}/answers", json=said).status_code == 204
    with http.stream("GET", f"/v1/runs/{asked['run_id']}/events", headers={"Last-Event-ID": last}) as response:
        rest = list(events(response))
    assert "one" not in "".join(data.get("text", "") for _, _, data in rest)
    assert rest[-1][1] == "result" and rest[-1][2]["stdout"] == "one\ntwo\n"
    with http.stream("GET", f"/v1/runs/{asked['run_id']}/events", headers={"Last-Event-ID": "nonsense-7"}) as response:
        assert [kind for _, kind, _ in events(response)][0] == "output"


def test_the_same_run_id_runs_once(http, session):
    run_id = new_id()
    run(http, session, "n = 0")
    first = run(http, session, "n += 1; n", run_id=run_id)
    assert run(http, session, "n += 1; n", run_id=run_id) == first and first["result"] == "1"
    assert http.get(f"/v1/runs/{run_id}").json() == first
    other = http.post(f"{session}/run", json={"code": "n = 5", "run_id": run_id})
    assert (other.status_code, other.json()["name"]) == (400, "BadRequest")


def test_a_client_that_vanishes_loses_nothing(http, gateway, session):
    run_id = new_id()
    code = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.02)\ndone = 1"
    body = json.dumps({"code": code, "run_id": run_id}).encode()
    head = b"POST %s/run HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    with socket.create_connection(("127.0.0.1", gateway.port)) as raw:
        raw.sendall(head % (session.encode(), len(body)) + body)
        until(lambda: http.get(f"/v1/runs/{run_id}?timeout=0").status_code == 202, "the call runs")
    http.put(f"{session}/files/go", content=b"")
    assert http.get(f"/v1/runs/{run_id}").json()["status"] == "ok"
    assert run(http, session, "done")["result"] == "1"


def test_a_client_that_does_not_read_stops_nobody(http, gateway, session):
    body = b'{"code": "print(\'x\' * 4000000)"}'
    head = b"POST %s/run HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\nContent-Length: %d\r\n\r\n"
    with socket.create_connection(("127.0.0.1", gateway.port)) as raw:
        raw.sendall(head % (session.encode(), len(body)) + body)
        raw.recv(1)
        assert run(http, session, "1 + 1")["result"] == "2"


def test_those_who_have_left_are_not_told_for_ever(gateway, http, session):
    def streams():
        return http.get("/metrics").text.partition("\nlimpet_serve_streams ")[2].partition("\n")[0]

    for _ in range(70):  # more than one person may have open at once
        with http.stream("GET", f"{session}/events") as response:
            assert response.status_code == 200
    until(lambda: float(streams()) == 0, "all streams have ended")
    run(http, session, "1")
    with http.stream("GET", f"{session}/events") as response:
        assert next(events(response))[1] == "run"


def test_interrupt(http, session):
    run_id = new_id()
    done = []
    thread = threading.Thread(target=lambda: done.append(run(http, session, "while True: pass", run_id=run_id)))
    thread.start()
    until(lambda: http.get(f"/v1/runs/{run_id}?timeout=0").status_code == 202, "the call runs")
    until(lambda: http.post(f"{session}/interrupt").json()["interrupted"], "it was interrupted")
    thread.join(60)
    assert done[0]["status"] == "interrupted"
    assert http.post(f"{session}/interrupt").json() == {"interrupted": False}


def test_completion_waits_for_no_cell(http, session):
    def completed(code):
        answer = http.post(f"{session}/complete", json={"code": code, "cursor": len(code)}, timeout=60)
        assert answer.status_code == 200
        return answer.json()["matches"]

    run(http, session, "apple_tree = 1")
    assert completed("apple_t") == ["apple_tree"]
    code = "import os, time\nopen('begun', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.02)"
    thread = threading.Thread(target=run, args=(http, session, code))
    thread.start()
    until(lambda: http.get(f"{session}/files/begun").status_code == 200, "the cell runs")
    try:
        assert (completed("apple_t"), completed("prin"), completed("apple_tree.")) == ([], ["print"], [])
    finally:
        http.put(f"{session}/files/go", content=b"")
        thread.join(60)


def test_reset(http, session):
    run(http, session, "x = 1")
    assert http.post(f"{session}/reset").status_code == 204
    assert run(http, session, "x")["error"]["name"] == "NameError"


def test_exec(http, session):
    record = http.post(f"{session}/exec", json={"command": "echo out; echo err >&2; exit 3"}).json()
    assert (record["stdout"], record["stderr"], record["exit_code"], record["kind"]) == ("out\n", "err\n", 3, "command")
    record = http.post(f"{session}/exec", json={"command": ["cat"], "stdin": "in"}).json()
    assert record["stdout"] == "in"


def test_a_call_without_a_session(http):
    record = http.post("/v1/run", json={"code": "print(1); 2"}).json()
    assert (record["stdout"], record["result"], record["session"]) == ("1\n", "2", None)
    assert http.get(f"/v1/runs/{record['run_id']}").json() == record


def test_other_languages(http, session):
    record = run(http, session, "echo $((6*7))", language="bash")
    assert record["stdout"] == "42\n" and record["session"].endswith("/bash")


def test_many_at_once_on_one_session(gateway, session):
    async def all_of_them():
        async with gateway.async_client() as http:
            calls = [http.post(f"{session}/run", json={"code": "counter += 1; counter"}) for _ in range(40)]
            return [answer.json()["result"] for answer in await asyncio.gather(*calls)]

    with gateway.client() as http:
        run(http, session, "counter = 0")
    assert sorted(map(int, asyncio.run(all_of_them()))) == list(range(1, 41))


def test_everybody_who_looks_sees_it(gateway, http, session):
    """What one client runs comes to the others, with its output."""
    seen, looking = [], threading.Event()

    def look():
        with gateway.client() as other, other.stream("GET", f"{session}/events") as response:
            looking.set()
            for _, kind, data in events(response):
                seen.append((kind, data))
                if kind == "result" and data["result"] == "'last'":
                    return

    thread = threading.Thread(target=look)
    thread.start()
    looking.wait(60)
    run(http, session, "print('for all')")
    run(http, session, "'last'")
    thread.join(60)
    kinds = [kind for kind, _ in seen]
    assert kinds.count("run") == kinds.count("result") == 2
    assert "".join(data["text"] for kind, data in seen if kind == "output") == "for all\n"
    assert seen[0][1]["code"] == "print('for all')"


@pytest.mark.parametrize(
    "body, status",
    [
        (b"", 400), (b"{", 400), (b"[]", 400), (b'{"code": 1}', 400), (b'{"code": "1", "unknown": 1}', 400),
        (b'{"code": "1", "timeout": -1}', 400), (b'{"code": "1", "run_id": "../x"}', 400), (b"\xff\xfe", 400),
        (b'{"code": "1", "tools": ["not a name"]}', 400), (b'{"code": "1", "language": "klingon"}', 400),
        (b"[" * 100000, 400), (b'{"code": "1", "on_error": "explode"}', 400),
    ],
)  # fmt: skip
def test_what_is_malformed_is_refused(http, session, body, status):
    answer = http.post(f"{session}/run", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json" and answer.json()["name"] == "BadRequest"
    assert run(http, session, "1")["result"] == "1"


def test_a_form_of_another_site_is_no_request(http, session):
    answer = http.post(f"{session}/run", content=b'{"code": "1"}', headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415


def test_half_a_request_and_noise(gateway, http):
    for sent in (b"GET", b"\0" * 100, b"POST /v1/run HTTP/1.1\r\nContent-Length: 99\r\n\r\n{", b"GET / HTTP/9.9\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", gateway.port)) as raw:
            raw.sendall(sent)
    assert http.get("/health").json() == {"status": "ok"}


def test_nothing_is_found_where_nothing_is(http, session):
    for path in ("/v1", "/v1/", "/v1/nothing", "/v1/sessions/", f"{session}/", f"{session}/nothing", "/v1/runs"):
        assert http.get(path).status_code == 404, path
    assert http.get(f"{session}/run").status_code == 405
    assert http.get(f"/v1/runs/{new_id()}").json()["name"] == "NoSuchRun"


def test_streams_end_with_their_session(http, name):
    http.post("/v1/sessions", json={"name": name})
    with http.stream("GET", f"/v1/sessions/{name}/events") as response:
        with httpx.Client(base_url=http.base_url) as other:
            assert other.delete(f"/v1/sessions/{name}").status_code == 204
        assert [kind for _, kind, _ in events(response)] == ["closed"]
