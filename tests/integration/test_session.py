"""Sessions, files and runs as a user of the Python client has them."""

import asyncio
import hashlib
import io
import os
import secrets
import stat
import threading

import limpet
import pytest

from .killed import Asking, wait_for


def test_open_attaches(client, name):
    with client.open(name, memory="256m", timeout=20) as session:
        session.run("x = 1")
        assert session.options["memory"] == 256 << 20 and session.options["timeout"] == 20
        assert client.open(name).run("x").result == "1"
        assert client.open(name, memory="256m").run("x").result == "1"
        with pytest.raises(limpet.OptionsDiffer, match="memory") as caught:
            client.open(name, memory="512m", timeout=20)
        assert caught.value.options == ("memory",)


@pytest.mark.parametrize("bad", ["", "x" * 65, "-a", ".a", "a b", "ä", "a\n", "../x"])
def test_bad_names(client, bad):
    with pytest.raises(limpet.BadRequest):
        client.open(bad)


@pytest.mark.parametrize(
    "options",
    [
        {"memory": "1k"},
        {"memory": "lots"},
        {"memory": -5},
        {"cpus": 0},
        {"cpus": float("nan")},
        {"pids": 0},
        {"disk": "1m"},
        {"disk": "9t"},
        {"files": 10},
        {"timeout": 0},
        {"timeout": 100000},
        {"ttl": -1},
        {"env": {"A=B": "x"}},
        {"env": {"A": 5}},
        {"env": "A=B"},
        {"data": "/no/such/directory"},
        {"data": "/etc/passwd"},
        {"network": "wifi"},
    ],
)
def test_bad_options(client, name, options):
    with pytest.raises(limpet.BadRequest):
        client.open(name, **options)
    assert name not in [row.session for row in client.sessions()]


def test_network_needs_permission(client, name):
    with pytest.raises((limpet.Denied, limpet.BadRequest)):
        client.open(name, network="host")


@pytest.mark.docker
@pytest.mark.engine
def test_image_that_is_not_there(client, name, limpetd):
    if not limpetd.isolates:
        pytest.skip("the local engine has no images")
    with pytest.raises(limpet.ImageMissing):
        client.open(name, image="no-such-image")
    with pytest.raises(limpet.ImageMissing):
        client.run("1", image="no-such-image")


def test_bad_code(session):
    with pytest.raises(limpet.TooLarge):
        session.run("#" * ((4 << 20) + 1))
    with pytest.raises(limpet.BadRequest):
        session.run(5)
    with pytest.raises(limpet.BadRequest):
        session.run("1", timeout=-1)
    with pytest.raises(limpet.BadRequest):
        session.run("1", run_id="short")
    assert session.run("#" * (4 << 20)).ok


def test_environment(client, name):
    with client.open(name, env={"GREETING": "hallo ä"}) as session:
        assert session.run("import os\nos.environ['GREETING']").result == "'hallo ä'"


@pytest.mark.docker
@pytest.mark.engine
def test_data_is_mounted_read_only(client, name, limpetd, tmp_path):
    if not limpetd.isolates:
        pytest.skip("the local engine mounts nothing")
    (tmp_path / "table.csv").write_text("a,b\n")
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if parent.owner() == tmp_path.owner() and len(parent.parts) > 2:
            parent.chmod(parent.stat().st_mode | 0o055)
    with client.open(name, data=tmp_path) as session:
        assert session.run("open('/data/table.csv').read()").result == repr("a,b\n")
        assert session.run("open('/data/new', 'w')").error.name in ("OSError", "PermissionError")


def test_sessions(client, session):
    session.run("1")
    row = next(row for row in client.sessions() if row.session == session.name)
    assert (row.engine, row.status, row.execution_count, row.epoch) == (session.engine, "idle", 1, 1)
    assert row.created > 1.6e9 and row.idle >= 0


def test_close(client, name):
    session = client.open(name)
    other = client.open(name)
    session.run("x = 1")
    session.close()
    with pytest.raises(limpet.SessionClosed):
        session.run("x")
    with pytest.raises(limpet.NoSuchSession):
        other.run("x")
    with client.open(name) as again:
        assert again.run("'x' in globals()").result == "False"
        with pytest.raises(limpet.NoSuchSession):
            other.run("x")


def test_an_idle_session_ends_after_its_ttl(client, name):
    session = client.open(name, ttl=5, ttl_action="close")
    assert session.run("1").ok
    wait_for(lambda: name not in [row.session for row in client.sessions()])
    with pytest.raises(limpet.NoSuchSession):
        session.run("1")


def test_what_pip_may_do_is_the_operators_to_say(own_limpetd):
    own_limpetd.start("--pip", "allow")
    with own_limpetd.client() as client, client.open("a") as session, client.open("b", pip="refuse") as other:
        assert (session.options["pip"], other.options["pip"]) == ("allow", "refuse")
    assert own_limpetd.stop() == 0


def test_ephemeral(client):
    assert client.run("x = 1\nx").session is None
    result = client.run("'x' in globals()")
    assert (result.result, result.execution_count, result.state) == ("False", 1, "kept")
    assert client.run("while True: pass", timeout=1).status == "timeout"
    assert client.run("import os\nos.environ['A']", env={"A": "b"}).result == "'b'"


def test_a_call_without_a_session_ends_as_a_script(client):
    result = client.run(
        "import atexit, threading, time\natexit.register(print, 'exit')\n"
        "def work():\n    time.sleep(0.3); print('done')\n    open('artifacts/of_thread', 'w').write('text')\n"
        "threading.Thread(target=work).start()\nfile = open('artifacts/left', 'w'); file.write('text'); print('begun')"
    )
    assert (result.status, result.stdout) == ("ok", "begun\ndone\nexit\n")
    for name in ("left", "of_thread"):
        with open(artifact(result, name)[1]) as file:
            assert file.read() == "text"
    cut = client.run("import threading\nthreading.Thread(target=threading.Event().wait).start(); print('begun')", timeout=1)
    assert (cut.status, cut.stdout) == ("timeout", "begun\n")


def test_what_threads_write_between_two_calls(session):
    session.run("import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.2), print('late'))).start()")
    session.exec("sleep 1")
    result = session.run("1")
    assert result.stdout == "" and result.between == limpet.Between("late\n", "", 0)
    assert session.run("1").between is None


def artifact(result, name):
    """The key, host path and info of the artifact of that name."""
    keys = [key for key in result.artifacts if key.endswith(f"/artifacts/{name}")]
    assert len(keys) == 1, (name, result.artifacts, result.skipped)
    return keys[0], result.artifacts[keys[0]], result.artifact_info[keys[0]]


WRITE = "import os\nos.makedirs('artifacts/sub', exist_ok=True)\n"


@pytest.mark.docker
@pytest.mark.engine
def test_artifacts(session, limpetd):
    result = session.run(
        WRITE + "open('artifacts/a.txt', 'w').write('one')\nopen('artifacts/sub/b.csv', 'w').write('x,y')"
    )
    assert len(result.artifacts) == len(result.artifact_info) == 2 and result.skipped == {}
    key, host, info = artifact(result, "a.txt")
    if limpetd.isolates:
        assert key == "/session/artifacts/a.txt"
    assert (info.size, info.mime_type, info.sha256) == (3, "text/plain", hashlib.sha256(b"one").hexdigest())
    with open(host, "rb") as file:
        assert file.read() == b"one"
    assert stat.S_IMODE(os.lstat(host).st_mode) == 0o644 and stat.S_ISREG(os.lstat(host).st_mode)
    assert artifact(result, "sub/b.csv")[2].size == 3

    assert session.run("1").artifacts == {}
    changed = session.run("open('artifacts/a.txt', 'w').write('two!')")
    assert list(changed.artifacts) == [key]
    with open(changed.artifacts[key], "rb") as file:
        assert file.read() == b"two!"


def test_artifacts_of_a_call_that_failed(session):
    result = session.run(WRITE + "open('artifacts/a.txt', 'w').write('one')\n1 / 0")
    assert result.status == "error" and artifact(result, "a.txt")[2].size == 3


def test_artifacts_outlive_their_session(client, name):
    with client.open(name) as session:
        host = artifact(session.run(WRITE + "open('artifacts/a.txt', 'w').write('one')"), "a.txt")[1]
    with open(host) as file:
        assert file.read() == "one"


def test_names_that_are_not_plain(session):
    code = (
        WRITE
        + "for n in (b'\\xff', 'ä b'.encode(), b'%41', b'-x', b'new\\nline'):\n"
        + "    open(b'artifacts/' + n, 'w').close()"
    )
    result = session.run(code)
    for name in ("\udcff", "ä b", "%41", "-x", "new\nline"):
        host = artifact(result, name)[1]
        assert os.path.isfile(host) and host.isprintable()
    assert len(set(result.artifacts.values())) == 5


@pytest.mark.proves("security: planted paths and links")
def test_what_is_no_regular_file_is_skipped(session):
    code = WRITE + (
        "os.symlink('/etc/passwd', 'artifacts/link')\n"
        "os.symlink('/etc', 'artifacts/dir')\n"
        "os.mkfifo('artifacts/fifo')\n"
        "open('artifacts/good', 'w').close()"
    )
    result = session.run(code)
    assert [os.path.basename(key) for key in result.artifacts] == ["good"]
    assert {os.path.basename(key) for key in result.skipped} == {"link", "dir", "fifo"}
    assert all(result.skipped.values())


PIPED = """
import os, subprocess
os.mkfifo("pipe"); os.mkfifo("artifacts/pipe")
writer = subprocess.Popen("echo through > pipe", shell=True)
open("pipe").read(), writer.wait()
"""


def test_named_pipes_carry_data_and_hold_up_nobody(session, tmp_path):
    result = session.run(WRITE + PIPED)
    assert (result.result, result.artifacts) == ("('through\\n', 0)", {})
    assert session.exec("cat pipe & echo on > pipe; wait").stdout == "on\n"
    assert {entry.name: entry.type for entry in session.files.list()}["pipe"] == "other"
    for read in (session.files.read, session.get):
        with pytest.raises(OSError):
            read("pipe")
    session.run("file = open('artifacts/file', 'w'); os.close(os.open('pipe', os.O_RDWR))").check()
    with pytest.raises(limpet.BadRequest, match="pipe"):
        session.get("artifacts", tmp_path / "artifacts")
    assert "pipe" in " ".join(session.save(tmp_path / "saved.limpet").skipped)
    session.rollback(session.checkpoint(files=True))
    session.run("os.path.exists('pipe') or os.mkfifo('pipe')").check()
    session.put(b"no pipe", "pipe")
    assert session.files.read("pipe") == b"no pipe"
    assert session.run("1").state == "kept"


@pytest.mark.engine
def test_artifacts_of_an_ephemeral_run(client, limpetd):
    result = client.run(WRITE + "open('artifacts/a.txt', 'w').write('one')")
    with open(artifact(result, "a.txt")[1]) as file:
        assert file.read() == "one"
    if limpetd.isolates:
        result = client.run("open('/work/artifacts/b.txt', 'w').write('two')")
        assert list(result.artifacts) == ["/work/artifacts/b.txt"]
        assert result.run_id in result.artifacts["/work/artifacts/b.txt"]


def test_put_and_get(session, tmp_path):
    data = secrets.token_bytes((3 << 20) + 5)
    (tmp_path / "in").write_bytes(data)
    session.put(tmp_path / "in", "deep/er/file.bin")
    code = "import hashlib\nhashlib.sha256(open('deep/er/file.bin', 'rb').read()).hexdigest()"
    assert session.run(code).result == repr(hashlib.sha256(data).hexdigest())
    session.get("deep/er/file.bin", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == data

    session.put(b"", "deep/er/file.bin")
    target = io.BytesIO()
    session.get("deep/er/file.bin", target)
    assert target.getvalue() == b""
    session.run("open('deep/er/file.bin', 'a').write('by the cell')")
    session.get("deep/er/file.bin", target)
    assert target.getvalue() == b"by the cell"


def test_files_that_cannot_be_got(session):
    session.run("import os\nos.symlink('/etc/passwd', 'link')\nos.mkfifo('fifo')\nos.mkdir('dir')")
    for path in ("missing", "link", "fifo", "dir", "missing/x"):
        with pytest.raises(limpet.NoSuchFile):
            session.get(path, io.BytesIO())
    for path in ("../x", "/none", "", "a/../../x"):
        with pytest.raises((limpet.NoSuchFile, limpet.BadRequest, limpet.FileFailed)):
            session.get(path, io.BytesIO())


def test_files_that_cannot_be_put(session):
    for path in ("/proc/x", ""):
        with pytest.raises((limpet.BadRequest, limpet.FileFailed)):
            session.put(b"x", path)


def test_calls_queue_in_order(session):
    started, results = threading.Event(), {}

    def run(key, code, **options):
        results[key] = session.run(code, **options)

    code = "import time\nseen = ['first']\nprint(1, flush=True)\ntime.sleep(0.5)\nseen.append('first ends')"
    first = threading.Thread(target=run, args=(1, code), kwargs={"on_stdout": lambda text: started.set()})
    first.start()
    assert started.wait(30)
    second = threading.Thread(target=run, args=(2, "seen.append('second')"))
    second.start()
    first.join(30)
    second.join(30)
    assert (results[1].execution_count, results[2].execution_count) == (1, 2)
    assert session.run("seen").result == "['first', 'first ends', 'second']"


def test_the_queue_has_an_end(limpetd, name):
    async def main():
        async with limpet.AsyncClient(limpetd.socket) as client, await client.open(name) as session:
            started = asyncio.Event()
            code = "import time\nprint(1, flush=True)\ntime.sleep(60)"
            first = asyncio.ensure_future(session.run(code, 60, on_stdout=lambda text: started.set()))
            await started.wait()
            waiting = [asyncio.ensure_future(session.run("1")) for _ in range(65)]
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=30)
            assert [type(task.exception()) for task in done] == [limpet.Busy]
            assert await session.interrupt()
            assert (await first).status == "interrupted"
            results = await asyncio.gather(*waiting, return_exceptions=True)
            assert sum(isinstance(result, limpet.Result) and result.ok for result in results) == 64

    asyncio.run(main())


def test_a_run_id_never_runs_twice(client, session):
    run_id = secrets.token_hex(16)
    session.run("n = 0")
    first = session.run("n += 1\nn", run_id=run_id)
    assert first.run_id == run_id and first.result == "1"
    assert session.run("n += 1\nn", run_id=run_id) == first
    assert client.result(run_id) == client.result(run_id, timeout=0) == first
    assert session.run("n").result == "1"
    with pytest.raises(limpet.BadRequest):
        session.run("something else", run_id=run_id)
    with pytest.raises(limpet.NoSuchRun):
        client.result(secrets.token_hex(16))


def test_a_run_id_that_runs_is_joined(client, session):
    run_id, started, results = secrets.token_hex(16), threading.Event(), []
    code = "import os, time\nprint(1, flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\n7"

    def work():
        results.append(session.run(code, on_stdout=lambda text: started.set(), run_id=run_id))

    thread = threading.Thread(target=work)
    thread.start()
    assert started.wait(30)
    assert client.result(run_id, timeout=0) is None
    joining = Asking(session.run, code, run_id=run_id)
    session.files.write("go", "")
    joined = joining.result()
    thread.join(30)
    assert joined == results[0] and joined.result == "7"


def test_a_call_goes_on_without_its_client(limpetd, client, name):
    run_id, started = secrets.token_hex(16), threading.Event()
    with client.open(name) as session:
        leaving = limpetd.client()

        def work():
            with pytest.raises(limpet.SessionClosed):
                code = "import time\nprint(1, flush=True)\ntime.sleep(0.5)\nx = 7\nx"
                leaving.open(name).run(code, on_stdout=lambda text: started.set(), run_id=run_id)

        thread = threading.Thread(target=work)
        thread.start()
        assert started.wait(30)
        leaving.close()
        thread.join(30)
        assert client.result(run_id).result == "7"
        assert session.run("x").result == "7"


def test_asyncio(limpetd, name):
    async def main():
        async with limpet.AsyncClient(limpetd.socket) as client, await client.open(name) as session:
            out = []
            result = await session.run("print('hi')\n6 * 7", on_stdout=out.append)
            assert (result.result, "".join(out)) == ("42", "hi\n")
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(session.run("while True: pass", 60), 0.5)
            assert (await session.run("6 * 7")).result == "42"
            await session.put(b"data", "f")
            target = io.BytesIO()
            await session.get("f", target)
            assert target.getvalue() == b"data"
            assert name in [row.session for row in await client.sessions()]

    asyncio.run(main())
