"""Files of the sandbox, artifacts, and what is uploaded for /data."""

import pytest


def run(http, session, code):
    record = http.post(f"{session}/run", json={"code": code}).json()
    assert record["status"] == "ok", record
    return record


def test_write_read_list_move_remove(http, session):
    assert http.put(f"{session}/files/sub/a.txt", content=b"hello").json()["size"] == 5
    answer = http.get(f"{session}/files/sub/a.txt")
    assert answer.content == b"hello" and answer.headers["content-type"].startswith("text/plain")
    assert answer.headers["x-content-type-options"] == "nosniff" and "sandbox" in answer.headers["content-security-policy"]
    assert "attachment" in answer.headers["content-disposition"]
    assert [each["name"] for each in http.get(f"{session}/files/sub").json()["entries"]] == ["a.txt"]
    assert "sub" in [each["name"] for each in http.get(f"{session}/files").json()["entries"]]
    assert http.post(f"{session}/files/sub/a.txt", json={"to": "b.txt"}).status_code == 204
    assert http.get(f"{session}/files/b.txt").content == b"hello"
    assert http.delete(f"{session}/files/b.txt").status_code == 204
    gone = http.get(f"{session}/files/b.txt")
    assert (gone.status_code, gone.json()["name"]) == (404, "FileFailed")
    assert http.put(f"{session}/files/dir", params={"directory": "1"}).json()["type"] == "directory"
    http.put(f"{session}/files/dir/x", content=b"")
    assert http.delete(f"{session}/files/dir").status_code == 409
    assert http.delete(f"{session}/files/dir", params={"recursive": "1"}).status_code == 204


def test_names_of_every_kind(http, session):
    for path in ("ä ö/é%25.txt", "a%2Fb", "%E2%82%AC%20%23%3F", "with%0Anewline", "%FF%FE"):
        assert http.put(f"{session}/files/{path}", content=path.encode()).status_code == 201, path
        assert http.get(f"{session}/files/{path}").content == path.encode()
    run(http, session, "import os; assert os.path.exists('a/b') and os.path.exists(b'\\xff\\xfe')")
    assert b"\\udcff" in http.get(f"{session}/files").content


@pytest.mark.parametrize("size", [0, 1, 4 << 20, (4 << 20) + 1, 9_000_001])
def test_sizes(http, session, size):
    data = bytes(range(256)) * (size // 256) + bytes(range(size % 256))
    assert http.put(f"{session}/files/big", content=data).json()["size"] == size
    assert http.get(f"{session}/files/big").content == data


def test_parts(http, session):
    data = bytes(range(256)) * 40000
    http.put(f"{session}/files/data", content=data)
    for asked, start, end in (("0-0", 0, 1), ("5-9", 5, 10), ("-3", len(data) - 3, len(data)), ("9999990-", 9999990, len(data)),
                              ("4194300-4194310", 4194300, 4194311), ("1-99999999999", 1, len(data))):  # fmt: skip
        answer = http.get(f"{session}/files/data", headers={"Range": f"bytes={asked}"})
        assert answer.status_code == 206 and answer.content == data[start:end], asked
        assert answer.headers["content-range"] == f"bytes {start}-{end - 1}/{len(data)}"
    assert http.get(f"{session}/files/data", headers={"Range": "bytes=99999999-"}).status_code == 416
    for nonsense in ("bytes=", "bytes=-", "bytes=a-b", "lines=1-2", "bytes=1-2,4-5"):
        assert http.get(f"{session}/files/data", headers={"Range": nonsense}).status_code == 200, nonsense
    assert http.head(f"{session}/files/data").headers["content-length"] == str(len(data))


def test_holes_are_zeros(http, session):
    run(http, session, "f = open('hole', 'wb'); f.seek(20_000_000); f.write(b'x'); f.close()")
    answer = http.get(f"{session}/files/hole")
    assert len(answer.content) == 20_000_001 and answer.content.strip(b"\0") == b"x"
    assert http.get(f"{session}/files/hole", headers={"Range": "bytes=-2"}).content == b"\0x"


def test_artifacts_are_found_by_the_address_in_the_record(http, session):
    record = run(http, session, "import os; os.makedirs('artifacts/d', exist_ok=True); open('artifacts/d/ä 1.csv', 'w').write('a,b')")
    ((path, url),) = record["artifacts"].items()
    assert path.endswith("/artifacts/d/ä 1.csv") and url.startswith("/v1/")
    assert http.get(url).content == b"a,b"
    assert http.get(url, headers={"Range": "bytes=2-2"}).content == b"b"
    of_run = http.get(f"/v1/runs/{record['run_id']}/artifacts{path}")
    assert of_run.content == b"a,b" and of_run.headers["x-content-type-options"] == "nosniff"
    assert http.get(f"/v1/runs/{record['run_id']}/artifacts{path}", headers={"Range": "bytes=-1"}).content == b"b"


@pytest.mark.parametrize("path", ["link", "directory/passwd", "inner/file"])
def test_links_of_artifacts_are_not_followed(http, session, path):
    run(http, session, "import os\nos.symlink('/etc/passwd', 'artifacts/link'); os.symlink('/etc', 'artifacts/directory')\n"
        "os.mkdir('artifacts/real'); open('artifacts/real/file', 'w').close(); os.symlink('real', 'artifacts/inner')")  # fmt: skip
    answer = http.get(f"{session}/artifacts/{path}")
    assert (answer.status_code, answer.json()["name"]) == (404, "NoSuchFile")
    assert http.get(f"{session}/artifacts/real/file").content == b""
    assert [each["name"] for each in http.get(f"{session}/artifacts").json()["entries"]] == ["file"]


def test_artifacts_of_a_call_without_a_session(http):
    code = "import os; os.makedirs('artifacts', exist_ok=True); open('artifacts/x.txt', 'w').write('kept')"
    record = http.post("/v1/run", json={"code": code}).json()
    ((_, url),) = record["artifacts"].items()
    assert http.get(url).content == b"kept"


@pytest.mark.engine
def test_a_list_of_artifacts(http, session, limpetd):
    if not limpetd.isolates:
        pytest.skip("the engine local has no /session")
    run(http, session, "open('artifacts/one.txt', 'w').write('1')")
    assert [each["path"] for each in http.get(f"{session}/artifacts").json()["entries"]] == ["/session/artifacts/one.txt"]


@pytest.mark.parametrize("path", ["..%2F..%2Fetc%2Fpasswd", "%2Fetc%2Fpasswd", "x/..%2F..%2F..%2Fetc/passwd", "%2e%2e/%2e%2e/etc/passwd"])
def test_artifacts_do_not_escape(http, session, path):
    answer = http.get(f"{session}/artifacts/{path}")
    assert answer.status_code == 404 and answer.json()["name"] == "NoSuchFile"
    run_id = run(http, session, "1")["run_id"]
    assert http.get(f"/v1/runs/{run_id}/artifacts/{path}").json()["name"] == "NoSuchFile"


def test_uploads_are_in_data(http, session, limpetd):
    if not limpetd.isolates:
        refused = http.post(f"{session}/data", params={"path": "a.csv"}, content=b"1")
        assert refused.status_code == 400 and "/data" in refused.json()["detail"]
        pytest.skip("the engine local has no /data")
    assert http.post(f"{session}/data", params={"path": "sub/a.csv"}, content=b"x,y").json() == {"uploaded": {"sub/a.csv": 3}}
    form = http.post(f"{session}/data", files={"file": ("b.csv", b"1,2"), "other": ("ü.txt", b"u")})
    assert form.json() == {"uploaded": {"b.csv": 3, "ü.txt": 1}}
    record = run(http, session, "import os; open('/data/sub/a.csv').read(), sorted(os.listdir('/data'))")
    assert record["result"] == "('x,y', ['b.csv', 'sub', 'ü.txt'])"
    refused = http.post(f"{session}/run", json={"code": "open('/data/b.csv', 'w')"}).json()
    assert refused["error"]["name"] in ("OSError", "PermissionError")
    assert http.get(f"{session}/data").json() == {"uploaded": {"b.csv": 3, "sub/a.csv": 3, "ü.txt": 1}}
    assert http.post(f"{session}/data", params={"path": "b.csv"}, content=b"new").status_code == 201
    assert run(http, session, "open('/data/b.csv').read()")["result"] == "'new'"


@pytest.mark.parametrize("path", ["", "/", "..", "../x", "a/../../x", "a\0b", "x" * 256, "/".join("abcdefghijklmnopqrstu")])
def test_uploads_do_not_escape(http, session, limpetd, path, gateway):
    answer = http.post(f"{session}/data", params={"path": path}, content=b"1")
    assert answer.status_code == 400 and answer.json()["name"] == "BadRequest"
    if limpetd.isolates and "\0" not in path:  # which the client writes in another way
        form = http.post(f"{session}/data", files={"file": (path or "..", b"1")})
        assert form.status_code == 400, form.text
    assert not (gateway.state / "x").exists() and not (gateway.directory / "x").exists()


def test_uploads_end_with_their_session(http, gateway, limpetd, name):
    http.post("/v1/sessions", json={"name": name})
    if limpetd.isolates:
        http.post(f"/v1/sessions/{name}/data", params={"path": "a"}, content=b"1")
        assert (gateway.state / "data" / name / "a").exists()
    http.delete(f"/v1/sessions/{name}")
    assert not (gateway.state / "data" / name).exists()


@pytest.mark.engine
def test_malformed_forms(http, session, limpetd):
    if not limpetd.isolates:
        pytest.skip("the engine local has no /data")
    for kind in ("multipart/form-data", "multipart/form-data; boundary=x"):
        answer = http.post(f"{session}/data", content=b"--y\r\n\r\nnothing", headers={"Content-Type": kind})
        assert answer.status_code == 400, answer.text
