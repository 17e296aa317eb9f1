"""Who may come in, and what they see of each other."""

import re
import subprocess
import sys
import threading
import time

import pytest

from limpet.serve._keys import KeyStore
from tests.support.gateway import until


def opened(client, name, **options):
    answer = client.post("/v1/sessions", json={"name": name, **options})
    assert answer.status_code == 201, answer.text
    return f"/v1/sessions/{name}"


@pytest.fixture
def anna(guarded):
    with guarded.client(guarded.anna) as client:
        yield client


@pytest.fixture
def ben(guarded):
    with guarded.client(guarded.ben) as client:
        yield client


def test_a_key_comes_in_either_header(guarded):
    for headers in ({"X-API-Key": guarded.anna}, {"Authorization": f"Bearer {guarded.anna}"}):
        with guarded.client() as client:
            assert client.get("/v1/sessions", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {}, {"X-API-Key": ""}, {"X-API-Key": "e2b_" + "0" * 40}, {"Authorization": "Bearer"}, {"Authorization": "Basic eDp5"},
        {"X-API-Key": "\xff" * 9000},
    ],
)  # fmt: skip
def test_wrong_keys_are_refused(guarded, headers):
    sent = {name: value.encode("latin-1") for name, value in headers.items()}
    with guarded.client() as client:
        for method, path in (("GET", "/v1/sessions"), ("POST", "/v1/run"), ("GET", "/v1/sessions/a/events")):
            answer = client.request(method, path, headers=sent)
            assert answer.status_code == 401 and answer.json()["name"] == "Unauthorized"
            assert "Bearer" in answer.headers["www-authenticate"]


def test_keys_are_not_stored(guarded):
    stored = (guarded.state / "keys").read_text()
    assert guarded.anna not in stored and guarded.anna[4:] not in stored and "anna" in stored
    assert (guarded.state / "keys").stat().st_mode & 0o77 == 0


def test_the_format_of_a_key(guarded):
    assert guarded.anna.startswith("e2b_") and len(guarded.anna) == 44 and int(guarded.anna[4:], 16) >= 0


def test_keys_come_and_go_while_the_gateway_runs(guarded):
    key = guarded.key("create", "clara")
    assert "clara" in guarded.key("ls")
    with guarded.client(key) as client:
        assert client.get("/v1/sessions").status_code == 200
        guarded.key("revoke", "clara")
        assert client.get("/v1/sessions").status_code == 401
    assert "clara" not in guarded.key("ls")


def test_a_new_key_is_good_at_once(tmp_path):
    keys = KeyStore(str(tmp_path / "keys"))
    assert keys.owner("unknown") is None  # the file has been read
    assert keys.owner(KeyStore(str(tmp_path / "keys")).create("clara")).name == "clara"


def test_keys_of_a_name_have_the_same_owner(tmp_path):
    keys = KeyStore(str(tmp_path / "keys"))
    first, second = keys.create("clara"), keys.create("clara")
    owner = keys.owner(first)
    assert owner is not None and keys.owner(second) == owner != keys.owner(keys.create("dora"))
    keys.revoke("clara", keys.all()[0].id)
    assert keys.owner(first) is None and keys.owner(second) == owner
    third = keys.rotate("clara")
    assert keys.owner(second) is None and keys.owner(third) == owner
    keys.revoke("clara")
    assert keys.owner(keys.create("clara")) == owner  # what there was is there again


def test_keys_of_a_file_from_before_keep_their_owner(tmp_path):
    keys = KeyStore(str(tmp_path / "keys"))
    (tmp_path / "keys").write_text('[{"name": "clara", "owner": "0123abcd", "sha256": "00", "created": 1.0}]')
    assert keys.owner(keys.rotate("clara")).id == "0123abcd"


def test_keys_expire(tmp_path, monkeypatch):
    keys = KeyStore(str(tmp_path / "keys"))
    key = keys.create("clara", 3600)
    owner = keys.owner(key)
    assert owner is not None and keys.is_there(owner.id)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3601)
    assert keys.owner(key) is None and not keys.is_there(owner.id)
    assert keys.are_there and keys.is_known(owner.id)  # the door stays closed, and what the owner has is kept


def test_a_key_is_replaced_while_its_sessions_live(guarded, name):
    old = guarded.key("create", "clara")
    with guarded.client(old) as client:
        session = opened(client, name)
    new = guarded.key("rotate", "clara", "--expires", "12h")
    with guarded.client(old) as client:
        assert client.get("/v1/sessions").status_code == 401
    with guarded.client(new) as client:
        assert client.get(session).status_code == 200
        client.delete(session)
    assert re.search(r"^clara\t\S+ \S+\t[0-9a-f]{8}\tuntil \S+ \S+$", guarded.key("ls"), re.M)
    guarded.key("revoke", "clara")


@pytest.mark.parametrize(
    "arguments",
    [("rotate", "nobody"), ("revoke", "anna", "00000000"), ("create", "a b"), ("create", "../x"), ("revoke", "nobody")],
)
def test_what_cannot_be_done_about_keys(guarded, arguments):
    command = [sys.executable, "-m", "limpet.serve", "key", *arguments]
    done = subprocess.run(command, env=guarded.environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.startswith("limpet key: ") and not done.stdout


def test_names_are_ones_own(anna, ben, name):
    hers, his = opened(anna, name), opened(ben, name)
    try:
        anna.post(f"{hers}/run", json={"code": "x = 'hers'"})
        assert ben.post(f"{his}/run", json={"code": "x"}).json()["error"]["name"] == "NameError"
        rows = anna.get("/v1/sessions").json()["sessions"]
        assert [row["session"] for row in rows if row["session"] == name] == [name]
    finally:
        anna.delete(hers)
        ben.delete(his)


def test_other_peoples_sessions_are_not_there(anna, ben, name, limpetd):
    session = opened(anna, name)
    try:
        inner = next(row for row in limpetd.sessions() if row.endswith(name))
        run_id = anna.post(f"{session}/run", json={"code": "1"}).json()["run_id"]
        checkpoint = anna.post(f"{session}/checkpoints", json={"name": "c"}).json()["id"]
        process = anna.post(f"{session}/processes", json={"command": "sleep 60"}).json()["id"]
        assert inner not in ben.get("/v1/sessions").text
        mine = opened(ben, f"{name}-b")
        for theirs in (session, f"/v1/sessions/{inner}", f"/v1/sessions/{inner}%2Fb", "/v1/sessions/..%2F" + name):
            for method, path, body in (
                ("GET", "", None), ("DELETE", "", None), ("POST", "/run", {"code": "1"}), ("POST", "/exec", {"command": "true"}),
                ("POST", "/interrupt", {}), ("POST", "/reset", None), ("GET", "/namespace", None), ("GET", "/files", None),
                ("GET", "/artifacts/x", None), ("POST", "/checkpoints", {}), ("GET", "/events", None), ("GET", "/processes", None),
                ("POST", "/answers", {"run_id": run_id, "ask": 1, "line": ""}), ("GET", "/data", None),
            ):  # fmt: skip
                answer = ben.request(method, theirs + path, json=body)
                assert (answer.status_code, answer.json()["name"]) == (404, "NoSuchSession"), (method, theirs + path)
        for path in (f"/v1/runs/{run_id}", f"/v1/runs/{run_id}/events", f"/v1/runs/{run_id}/artifacts/x"):
            assert ben.get(path).json()["name"] == "NoSuchRun"
        assert ben.post(f"{mine}/interrupt", json={"run_id": run_id}).status_code == 404
        assert ben.post(f"{mine}/rollback", json={"checkpoint": checkpoint}).status_code == 404
        assert ben.get(f"{mine}/processes/{process}/output").status_code == 404
        assert ben.post(f"{mine}/processes/{process}/signal", json={"signal": "KILL"}).status_code == 404
        assert ben.post(f"{mine}/branches/{inner}/commit").status_code in (400, 404)
        assert anna.get(session).status_code == 200
    finally:
        anna.delete(session)
        ben.delete(f"/v1/sessions/{name}-b")


def test_a_call_without_a_session_is_ones_own(anna, ben):
    """The same id is another call for somebody else."""
    run_id = "ab" * 16
    hers = anna.post("/v1/run", json={"code": "'hers'", "run_id": run_id}).json()
    assert ben.get(f"/v1/runs/{run_id}").status_code == 404
    his = ben.post("/v1/run", json={"code": "'his'", "run_id": run_id}).json()
    assert (hers["result"], his["result"]) == ("'hers'", "'his'")
    assert anna.get(f"/v1/runs/{run_id}").json() == hers


def test_a_call_without_a_session_is_interrupted_by_its_owner_alone(anna, ben):
    run_id, done = "5" * 32, []
    thread = threading.Thread(target=lambda: done.append(anna.post("/v1/run", json={"code": "while True: pass", "run_id": run_id}).json()))
    thread.start()
    until(lambda: anna.get(f"/v1/runs/{run_id}?timeout=0").status_code == 202, "the call runs")
    assert ben.post(f"/v1/runs/{run_id}/interrupt").status_code == 404
    until(lambda: anna.post(f"/v1/runs/{run_id}/interrupt").json()["interrupted"], "it was interrupted")
    thread.join(60)
    assert done[0]["status"] == "interrupted"
    assert anna.post(f"/v1/runs/{run_id}/interrupt").json() == {"interrupted": False}


def test_without_keys_no_other_site_and_no_other_name(http):
    for headers in (
        {"Host": "evil.example:8000"}, {"Host": ""}, {"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "null"}, {"Host": "127.0.0.1.evil.example"},
    ):  # fmt: skip
        assert http.get("/v1/sessions", headers=headers).status_code in (400, 403), headers
    assert http.get("/v1/sessions", headers={"Host": "localhost:1"}).status_code == 200


def test_without_keys_it_listens_on_loopback_alone(own_gateway):
    gateway = own_gateway(start=False)
    command = [sys.executable, "-W", "ignore", "-m", "limpet.serve", "--host", "0.0.0.0", "--port", "0"]
    done = subprocess.run(command, env=gateway.environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "limpet key create" in done.stderr


def test_the_first_key_closes_the_door_for_others(own_gateway):
    gateway = own_gateway()
    with gateway.client() as client:
        assert client.get("/v1/sessions").status_code == 200
        gateway.key("create", "anna")
        until(lambda: client.get("/v1/sessions").status_code == 401, "a key is asked for")
        gateway.key("revoke", "anna")
        assert client.get("/v1/sessions").status_code == 401


def test_metrics_are_told_to_those_with_a_key_and_have_no_secrets(anna, guarded, name):
    with guarded.client() as nobody:  # a proxy of this machine looks the same
        assert nobody.get("/metrics").status_code == 401
    session = opened(anna, name)
    anna.delete(session)
    text = anna.get("/metrics").text
    assert 'limpet_serve_requests_total{door="rest",operation="open_session",status="201"}' in text
    assert name not in text and guarded.anna not in text


def test_each_operation_is_written_down(anna, guarded, name):
    session = opened(anna, name)
    record = anna.post(f"{session}/run", json={"code": "secret = 'abracadabra'"}).json()
    anna.delete(session)
    lines = until(lambda: [each for each in guarded.lines() if each.get("session") == name][2:] and guarded.lines(), "three lines")
    own = [each for each in lines if each.get("session") == name]
    assert [(each["who"], each["operation"], each["status"]) for each in own] == [
        ("anna", "open_session", 201), ("anna", "run", 200), ("anna", "close_session", 204),
    ]  # fmt: skip
    assert own[1]["run_id"] == record["run_id"] and "abracadabra" not in guarded.audit.read_text()
