"""The description of the interface against what there is."""

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
