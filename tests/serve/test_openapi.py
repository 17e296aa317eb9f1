"""The description of the interface against what there is."""

import json
import os

import pytest
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate

from limpet.serve._rest import table


@pytest.fixture(scope="module")
def document(gateway):
    with gateway.client() as client:
        return client.get("/v1/openapi.json").json()


def test_it_is_openapi(document):
    validate(document)
    assert document["openapi"].startswith("3.1")


def test_every_operation_is_in_it_and_no_other(document):
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {(each.method, each.template) for each in table.all}
    names = [said["operationId"] for methods in document["paths"].values() for said in methods.values()]
    assert len(names) == len(set(names))


def test_every_operation_says_what_it_does(document):
    for path, methods in document["paths"].items():
        for method, said in methods.items():
            assert said["summary"].endswith("."), (method, path)
            named = {each["name"] for each in said.get("parameters", ()) if each["in"] == "path"}
            assert named == {part[1:-1] for part in path.split("/") if part.startswith("{")}


def test_every_path_is_answered(document, http):
    """Those that are described are found: what they say of a session that is not there, or of an empty body."""
    for path, methods in document["paths"].items():
        for method in methods:
            url = path.replace("{run_id}", os.urandom(16).hex())
            for part in ("session", "path", "checkpoint", "branch", "process"):
                url = url.replace(f"{{{part}}}", "nothing")
            answer = http.request(method, url, json={} if method in ("post", "put") else None)
            if path in ("/health", "/ready", "/metrics", "/v1/openapi.json", "/v1/sessions"):
                assert answer.status_code in (200, 201), (method, path)
            else:
                assert answer.json()["name"] in ("NoSuchSession", "NoSuchRun", "BadRequest"), (method, path, answer.text)
            if path == "/v1/sessions" and method == "post":
                http.delete(f"/v1/sessions/{answer.json()['session']}")


def of(document, path, method="get", status="200"):
    schema = document["paths"][path][method]["responses"][status]["content"]
    schema = next(iter(schema.values()))["schema"]
    return OAS31Validator({**schema, "components": document["components"]})


def test_answers_are_as_described(document, http, session, name):
    base = "/v1/sessions/{session}"
    http.post(f"{session}/run", json={"code": "open('artifacts/a', 'w').close() if False else None"})
    for body in ({"code": "x = 1; print(x); x"}, {"code": "1/0"}, {"code": "import os; os._exit(1)"}):
        of(document, base + "/run", "post").validate(http.post(f"{session}/run", json=body).json())
    http.put(f"{session}/files/a.txt", content=b"1")
    http.post(f"{session}/branches", json={"name": "b"})
    process = http.post(f"{session}/processes", json={"command": "echo 1"})
    of(document, base + "/processes", "post", "201").validate(process.json())
    made = http.post(f"{session}/checkpoints", json={})
    of(document, base + "/checkpoints", "post", "201").validate(made.json())
    for path in ("", "/namespace", "/checkpoints", "/branches", "/files", "/processes", "/data", "/artifacts"):
        of(document, base + path).validate(http.get(session + path).json())
    of(document, "/v1/sessions").validate(http.get("/v1/sessions").json())
    rolled = http.post(f"{session}/rollback", json={"checkpoint": made.json()["id"]})
    of(document, base + "/rollback", "post").validate(rolled.json())
    problem = document["paths"][base]["get"]["responses"]["default"]["content"]["application/problem+json"]["schema"]
    OAS31Validator({**problem, "components": document["components"]}).validate(http.get("/v1/sessions/nobody").json())


def test_what_attaches_is_described_too(document, http, session, name):
    for path, body in (("/v1/sessions", {"name": name}), (f"{session}/contexts", {"name": "c"})):
        first, again = (http.post(path, json=body) for _ in range(2))
        assert again.status_code == 200 and not again.json()["created"], (path, again.text)
        for answer in (first, again):
            of(document, path.replace(name, "{session}"), "post", str(answer.status_code)).validate(answer.json())


def events(http, method, url, **more):
    """Of a stream, until its end: names and data."""
    with http.stream(method, url, headers={"Accept": "text/event-stream"}, **more) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            kind, _, said = line.partition(": ")
            if kind == "event":
                name = said
            elif kind == "data":
                yield name, json.loads(said)


SHOWS = """
import sys
from limpet_runtime import display
print("out"); print("err", file=sys.stderr); display.display(1)
"""


def test_events_are_as_described(document, http, session):
    base, seen = "/v1/sessions/{session}", {}

    def check(path, method, found):
        described = document["paths"][path][method]["responses"]["200"]["content"]["text/event-stream"]["x-events"]
        for name, data in found:
            OAS31Validator({**described[name], "components": document["components"]}).validate(data)
            seen.setdefault((path, name), data)

    feed = http.stream("GET", f"{session}/events")
    with feed as listening:
        check(base + "/run", "post", events(http, "POST", f"{session}/run", json={"code": SHOWS}))
        check(base + "/exec", "post", events(http, "POST", f"{session}/exec", json={"command": "echo 1"}))
        http.put(f"{session}/files/a.txt", content=b"1")
        http.delete(session)
        lines = [line for line in listening.iter_lines() if line.startswith(("event: ", "data: "))]
    told = [(name[7:], json.loads(data[6:])) for name, data in zip(lines[::2], lines[1::2])]
    check(base + "/events", "get", told)
    assert {"run", "output", "display", "result", "changed", "closed"} <= {name for path, name in seen if path.endswith("/events")}
    assert {name for path, name in seen if path.endswith("/exec")} == {"output", "result"}


def test_events_of_a_process_are_as_described(document, http, session):
    process = http.post(f"{session}/processes", json={"command": "echo 1"}).json()["id"]
    content = document["paths"]["/v1/sessions/{session}/processes/{process}/output"]["get"]["responses"]["200"]["content"]
    found = list(events(http, "GET", f"{session}/processes/{process}/output"))
    assert [name for name, _ in found] == ["output", "end"]
    for name, data in found:
        OAS31Validator({**content["text/event-stream"]["x-events"][name], "components": document["components"]}).validate(data)
