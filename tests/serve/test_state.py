"""Variables: checkpoints, rollback, branches."""

import pytest


def run(http, session, code):
    return http.post(f"{session}/run", json={"code": code}).json()


def test_checkpoint_and_rollback(http, session):
    run(http, session, "x = 1")
    made = http.post(f"{session}/checkpoints", json={"name": "one"})
    assert made.status_code == 201 and made.json()["session"] == session.rpartition("/")[2]
    run(http, session, "x = 2")
    assert [each["name"] for each in http.get(f"{session}/checkpoints").json()["checkpoints"] if not each["automatic"]] == ["one"]
    back = http.post(f"{session}/rollback", json={"checkpoint": "one"}).json()
    assert back["checkpoint"] == made.json()["id"] and run(http, session, "x")["result"] == "1"
    assert http.delete(f"{session}/checkpoints/one").status_code == 204
    gone = http.post(f"{session}/rollback", json={"checkpoint": "one"})
    assert (gone.status_code, gone.json()["name"]) == (404, "NoSuchCheckpoint")


def test_files_go_back_too(http, session):
    http.put(f"{session}/files/a.txt", content=b"old")
    http.post(f"{session}/checkpoints", json={"name": "c", "files": True})
    http.put(f"{session}/files/a.txt", content=b"new")
    assert http.post(f"{session}/rollback", json={"checkpoint": "c"}).json()["files"] == "restored"
    assert http.get(f"{session}/files/a.txt").content == b"old"


def test_branch_and_commit(http, session):
    run(http, session, "x = 1")
    opened = http.post(f"{session}/branches", json={"name": "try"})
    assert opened.status_code == 201 and opened.json()["session"].endswith("/try")
    again = http.post(f"{session}/branches", json={"name": "try"})
    assert (again.status_code, again.json()["name"]) == (409, "BranchExists")
    branch = f"{session}%2Ftry"
    assert run(http, branch, "x += 1; x")["result"] == "2" and run(http, session, "x")["result"] == "1"
    assert [row["session"] for row in http.get(f"{session}/branches").json()["branches"]] == [opened.json()["session"]]
    assert http.post(f"{session}/branches/try/commit").status_code == 200
    assert run(http, session, "x")["result"] == "2"
    assert http.get(branch).status_code == 404
    assert http.post(f"{session}/branches/try/commit").status_code == 404


def test_a_branch_is_closed_alone(http, session):
    http.post(f"{session}/branches", json={"name": "b"})
    assert http.delete(f"{session}%2Fb").status_code == 204
    assert run(http, session, "1")["result"] == "1"


def test_contexts(http, session):
    made = http.post(f"{session}/contexts", json={"name": "shell", "language": "bash"})
    assert (made.status_code, made.json()["language"]) == (201, "bash")
    assert http.post(f"{session}/contexts", json={"name": "shell", "language": "bash"}).status_code == 200
    run(http, f"{session}%2Fshell", "a=5")
    assert run(http, f"{session}%2Fshell", "echo $a")["stdout"] == "5\n"


def test_namespace(http, session):
    run(http, session, "a = 1; b = [1, 2]; _hidden = 3")
    names = {each["name"]: each for each in http.get(f"{session}/namespace").json()["names"]}
    assert names.keys() == {"a", "b"} and names["a"]["repr"] == "1" and names["b"]["shape"] == [2]


def test_on_error_rollback(http, session):
    run(http, session, "x = 1")
    record = http.post(f"{session}/run", json={"code": "x = 2; 1/0", "on_error": "rollback"}).json()
    assert record["state"] == "rolled_back" and run(http, session, "x")["result"] == "1"


def test_sessions_are_listed_and_found_again(http, session, name):
    again = http.post("/v1/sessions", json={"name": name})
    assert (again.status_code, again.json()["created"]) == (200, False)
    assert name in [row["session"] for row in http.get("/v1/sessions").json()["sessions"]]
    assert http.get(session).json()["instance"] == again.json()["instance"]
    differs = http.post("/v1/sessions", json={"name": name, "timeout": 77})
    assert (differs.status_code, differs.json()["name"], differs.json()["options"]) == (409, "OptionsDiffer", ["timeout"])


def test_a_session_of_another_client_is_the_same(http, client, name):
    with client.open(name) as own:
        own.run("x = 5")
        assert http.post("/v1/sessions", json={"name": name}).status_code == 200
        assert run(http, f"/v1/sessions/{name}", "x")["result"] == "5"


def test_a_session_that_is_opened_again_is_another_one(http, client, name):
    """What the gateway remembers of one is not taken for the next of that name."""
    session = f"/v1/sessions/{name}"
    http.post("/v1/sessions", json={"name": name})
    run(http, session, "x = 1")
    client.close_session(name)
    assert http.post(f"{session}/run", json={"code": "x"}).json()["name"] == "NoSuchSession"
    assert http.post("/v1/sessions", json={"name": name}).status_code == 201
    assert run(http, session, "x")["error"]["name"] == "NameError"
    http.delete(session)


@pytest.mark.parametrize(
    "body, status", [
        ({"name": "a/b"}, 400), ({"name": ""}, 400), ({"name": "x" * 65}, 400), ({"name": "ä"}, 400), ({"data": "/etc"}, 400),
        ({"memory": "lots"}, 400), ({"cpus": -1}, 400), ({"env": {"A": 1}}, 400), ({"checkpoint": "never"}, 400),
        ({"image": "no-such-image"}, 404),
    ],
)  # fmt: skip
def test_wrong_options(http, limpetd, body, status):
    if "image" in body and not limpetd.isolates:
        pytest.skip("the engine local has no images")
    assert http.post("/v1/sessions", json=body).status_code == status


def test_sleep_and_fork(http, session):
    run(http, session, "x = [1]")
    assert http.post(f"{session}/sleep").status_code == 204
    row = next(row for row in http.get("/v1/sessions").json()["sessions"] if session.endswith(f"/{row['session']}"))
    assert row["status"] == "saved"
    made = http.post(f"{session}/forks", json={"count": 2})
    assert made.status_code == 201
    forks = [f"/v1/sessions/{each['session']}" for each in made.json()["sessions"]]
    assert [run(http, each, "x.append(2); x")["result"] for each in forks] == ["[1, 2]"] * 2
    assert run(http, session, "x")["result"] == "[1]"
    named = http.post(f"{session}/forks", json={"name": "other"})
    assert [each["session"] for each in named.json()["sessions"]] == ["other"]
    again = http.post(f"{session}/forks", json={"name": "other"})
    assert (again.status_code, again.json()["name"]) == (409, "SessionExists")
    assert http.post(f"{session}/forks", json={"name": "more", "count": 2}).status_code == 400
    for each in (*forks, "/v1/sessions/other"):
        assert http.delete(each).status_code == 204
