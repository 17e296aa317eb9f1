"""Processes in the background, and terminals."""

import base64

from tests.support.gateway import events, until


def text(pieces):
    return b"".join(base64.b64decode(piece["data"]) for piece in pieces).decode()


def start(http, session, command, **more):
    answer = http.post(f"{session}/processes", json={"command": command, **more})
    assert answer.status_code == 201, answer.text
    return f"{session}/processes/{answer.json()['id']}"


def test_a_process_is_written_to_and_read(http, session):
    process = start(http, session, ["cat"], name="cat")
    assert http.post(f"{process}/input", json={"text": "hello\n"}).status_code == 204
    found = until(lambda: http.get(f"{process}/output?timeout=5").json()["pieces"], "its output")
    assert text(found) == "hello\n"
    assert [row["name"] for row in http.get(f"{session}/processes").json()["processes"] if row["running"]] == ["cat"]
    assert http.post(f"{process}/input", json={"data": base64.b64encode(b"\xff\n").decode(), "close": True}).status_code == 204
    with http.stream("GET", f"{process}/output", headers={"Accept": "text/event-stream", "Last-Event-ID": "6"}) as response:
        heard = list(events(response))
    assert [kind for _, kind, _ in heard] == ["output", "end"]
    assert base64.b64decode(heard[0][2]["data"]) == b"\xff\n" and heard[0][0] == "8"
    assert http.get(f"/v1/runs/{process.rpartition('/')[2]}").json()["exit_code"] == 0


def test_a_terminal(http, session):
    process = start(http, session, "stty size; read line; echo got $line", pty=[33, 10])
    with http.stream("GET", f"{process}/output", headers={"Accept": "text/event-stream"}) as response:
        seen = ""
        for _, kind, data in events(response):
            if kind == "end":
                break
            seen += base64.b64decode(data["data"]).decode()
            if "10 33" in seen and "got" not in seen:
                assert http.post(f"{process}/resize", json={"rows": 5, "columns": 50}).status_code == 204
                http.post(f"{process}/input", json={"text": "typed\r"})
    assert "got typed" in seen


def test_signals(http, session):
    process = start(http, session, "sleep 600")
    assert http.post(f"{process}/signal", json={"signal": "SIGKILL"}).status_code == 204
    record = http.get(f"/v1/runs/{process.rpartition('/')[2]}").json()
    assert record["signal"] == 9
    for wrong in ("NOTHING", 0, 65, "KILL; ls"):
        assert http.post(f"{process}/signal", json={"signal": wrong}).status_code == 400
    assert http.post(f"{process}/input", json={"text": "x"}).json()["name"] == "NoSuchRun"


def test_processes_that_are_not_there(http, session):
    for which in ("nobody", "0" * 32, "%00", "%2E%2E"):
        answer = http.get(f"{session}/processes/{which}/output")
        assert answer.status_code in (400, 404), which
