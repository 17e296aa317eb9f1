"""Saved sessions between the two clients: what C writes Python restores, and the other way round; and what C refuses,
before it restores anything. Exports of both say the same."""

import json
import os
import resource
import subprocess
import tarfile

import pytest

from tests.python import test_archive as archives

from .test_saving import FILES, VARIABLES

LIMPET = os.path.join(os.environ.get("LIMPET_BUILD", "build/bin"), "limpet")


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "conv.limpet")


@pytest.fixture
def limpet(limpetd):
    def run(*words, status=0, **options):
        """Standard output and error. The command needs no Python."""
        environment = os.environ | {"LIMPET_SOCKET": limpetd.socket, "LIMPET_AUTOSTART": "0", "LIMPET_PYTHON": "/bin/false"}
        done = subprocess.run([LIMPET, *words], capture_output=True, text=True, env=environment, timeout=100, **options)
        assert done.returncode == status, done.stderr
        return done.stdout, done.stderr

    return run


@pytest.fixture
def restored(client, limpet, name, path):
    """Makes a session of the archive, by either client: it, and what is said to be not as it was."""
    made = []

    def restore(how):
        back = f"{name}-{len(made)}-back"
        if how == "python":
            session = client.open(back, restore=path)
            made.append(session)
            return session, session.restored
        _, err = limpet("open", "--restore", path, back)
        made.append(client.attach(back))
        prefix = "limpet: not as it was saved: "
        return made[-1], [line.removeprefix(prefix) for line in err.splitlines() if line.startswith(prefix)]

    yield restore
    for session in made:
        session.close()


def save(how, session, limpet, path):
    session.save(path) if how == "python" else limpet("save", session.name, path)


WAYS = [("c", "c"), ("c", "python"), ("python", "c")]


@pytest.mark.parametrize("writer, reader", WAYS)
def test_variables(session, limpet, path, restored, writer, reader):
    count = session.run(VARIABLES).execution_count
    save(writer, session, limpet, path)
    back, missing = restored(reader)
    assert sorted(note.partition(":")[0] for note in missing) == ["generator", "holds", "lock", "thread"]
    assert back.run("rows is alias is table['rows'], table['loop'][0] is table, table['bytes']").result == repr((True, True, b"\0\xff"))
    assert back.run("point.norm(), count()").execution_count == count + 2


@pytest.mark.parametrize("writer, reader", WAYS)
def test_files(session, limpet, path, restored, writer, reader):
    session.run(FILES, timeout=60).check()
    session.run("os.mkdir('odd'); open(b'odd/\\xff\\n' + b'x' * 200, 'wb').write(b'1'); os.symlink('y' * 300, 'long')").check()
    save(writer, session, limpet, path)
    assert os.path.getsize(path) < 50_000_000
    back, missing = restored(reader)
    look = "sorted(look().items()), os.stat('sparse').st_blocks * 512 < 60_000_000"
    there, here = (each.run(look, timeout=60).check().result for each in (session, back))
    assert here == there and here.endswith("True)")
    assert missing == ["/session/sock: a socket is not saved"]
    with tarfile.open(path, errors="surrogateescape") as tar:
        found = {member.name: member for member in tar.getmembers()}
    assert found["files/sparse"].size == 100_000_000 and found["files/sparse"].mtime == 1_500_000_000
    assert found["files/long"].linkname == "y" * 300 and found["files/a/small"].mode == 0o640


@pytest.mark.parametrize("writer, reader", WAYS)
def test_options(client, limpet, name, path, restored, writer, reader):
    with client.open(name, env={"KEY": "ü=1"}, timeout=17, memory="300m", pip="allow", ttl=500) as session:
        save(writer, session, limpet, path)
        options = session.options
    back, missing = restored(reader)
    assert missing == ["'pip' lets code reach more, and is not taken from a file: give it again"]
    assert back.options == options | {"pip": "refuse"}


def test_the_manifest_is_that_of_python(client, session, limpet, tmp_path):
    session.run("import threading; x, lock = 1, threading.Lock()").check()
    by_c, by_python = str(tmp_path / "c"), str(tmp_path / "python")
    limpet("save", session.name, by_c)
    session.save(by_python)
    said = []
    for path in (by_c, by_python):
        with tarfile.open(path) as tar:
            said.append(json.load(tar.extractfile("manifest.json")) | {"created": 0})
    assert said[0] == said[1]


@pytest.mark.long
def test_a_large_file_takes_little_memory(session, limpet, path, restored):
    """A limit of the address space that one whole file would not fit in."""
    session.run("with open('large', 'wb') as file:\n    file.truncate(1 << 30)\n    file.seek(500 << 20); file.write(b'x' * (300 << 20))", timeout=60).check()
    sanitized = b"__asan_init" in open(LIMPET, "rb").read()
    bound = {} if sanitized else {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (100 << 20, 100 << 20))}
    limpet("save", session.name, path, **bound)
    assert 300 << 20 < os.path.getsize(path) < 310 << 20
    back = f"{session.name}-back"
    limpet("open", "--restore", path, back, **bound)
    code = "import os; s = os.stat('large'); f = open('large', 'rb'); f.seek((800 << 20) - 1); (s.st_size, s.st_blocks * 512 < 310 << 20, f.read(2))"
    out, _ = limpet("run", "-s", back, "-c", code)
    limpet("close", back)
    assert out.strip() == repr((1 << 30, True, b"x\0"))


MALFORMED = [
    *[(data, f"{says}|does not end") for data, says in archives.MANIFESTS],
    *[(archives.manifest() + data, says) for data, says in archives.MEMBERS],
    (archives.manifest() + archives.head("files/l", tarfile.SYMTYPE, link="/etc") + archives.head("files/l/passwd"), "it has 'files/l/passwd'"),
    (archives.manifest() + archives.head("variables", tarfile.SYMTYPE, link="files/a"), "it has 'variables'"),
    (archives.manifest() + archives.head("files/a").replace(b"ustar  \0", b"ustar\x0000"), "bad header"),
    (archives.manifest() + archives.head("files/d", tarfile.DIRTYPE, size=512) + bytes(512), "no data has some"),
    (archives.manifest(options={"packages": "requirements.txt"}), "cannot be read"),
    (archives.manifest(options={"timeout": "soon"}), "cannot be read"),
]


@pytest.mark.proves("security: saved sessions that somebody else made")
def test_what_is_malformed_is_refused(client, limpet, name, path):
    """Before there is a session."""
    for data, says in MALFORMED:
        archives.seal(path, data)
        _, err = limpet("open", "--restore", path, name, status=125)
        assert "RestoreFailed: " in err and "nothing was restored" in err and any(each in err for each in says.split("|")), (says, err)
    assert name not in [row.session for row in client.sessions()]


def test_what_is_damaged_is_refused(client, limpet, name, path):
    archives.write(path, (archives.Member("files/a", "file", 0o600, 3, data=((0, 3),)), b"abc"))
    whole = open(path, "rb").read()
    for data in [whole[:size] for size in range(0, len(whole), 512)] + [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in (0, 100, 600, 1600, len(whole) - 1500)]:
        with open(path, "wb") as file:
            file.write(data)
        _, err = limpet("open", "--restore", path, name, status=125)
        assert "RestoreFailed: " in err and "nothing was restored" in err
    assert name not in [row.session for row in client.sessions()]


def test_an_open_session_is_not_replaced(session, limpet, path):
    session.run("x = 1").check()
    limpet("save", session.name, path)
    assert "SessionExists" in limpet("open", "--restore", path, session.name, status=125)[1]
    assert session.run("x").result == "1"


def test_no_session_is_left_where_variables_cannot_be_loaded(client, limpet, name, path):
    archives.write(path, (archives.Member("files/a", "file", 0o600, 3, data=((0, 3),)), b"abc"))
    assert "RestoreFailed" in limpet("open", "--restore", path, name, status=125)[1]
    assert name not in [row.session for row in client.sessions()]


def test_it_takes_its_place_when_it_is_whole(session, limpet, path, tmp_path):
    (tmp_path / "conv.limpet").write_text("before")
    assert "No such file" in limpet("save", session.name, str(tmp_path / "missing" / "x"), status=125)[1]
    session.run("x = 1").check()
    out, _ = limpet("save", session.name, path)
    assert out == f"saved {session.name}: 1 variables, /session; {os.path.getsize(path)} bytes\n"
    assert os.listdir(tmp_path) == ["conv.limpet"] and os.stat(path).st_mode & 0o777 == 0o600
    assert session.run("import os; [n for n in os.listdir() if n.startswith('.limpet-')]").result == "[]"


def contents(top):
    notebook = json.loads((top / "notebook.ipynb").read_text())
    lock = json.loads((top / "lock.json").read_text())
    for artifact in lock["artifacts"]:
        artifact["file"] = artifact["file"] and os.path.relpath(artifact["file"], top)
    files = {os.fsencode(file.relative_to(top)): file.read_bytes() for file in (top / "artifacts").rglob("*") if file.is_file()}
    return notebook, lock, files


CALLS = """
import os, sys
from IPython.display import display, HTML, JSON
print('ü\\x00\\x1b[31m'); print('err', file=sys.stderr)
class Shown:
    def _repr_mimebundle_(self, **_):
        return {'text/html': '<b>x</b>', 'image/png': b'\\x89PNG', 'application/json': {'a': [1, 2.5, None]}}
display({'a': 1}, Shown())
os.makedirs('artifacts/d'); open('artifacts/d/a', 'w').write('1'); open('artifacts/b', 'w').write('2'); open(b'artifacts/\\xff', 'w').write('3')
Shown()
"""


def test_exports_are_the_same(session, limpet, tmp_path):
    session.run(CALLS).check()
    kept = session.checkpoint()
    session.run("x = 2; 1 / 0")
    session.rollback(kept)
    session.exec("echo one\necho two").check()
    session.exec(["printf", "%s", "it's", ""]).check()
    session.run("open('artifacts/b', 'w').write('33')").check()
    session.exec("echo 4 > artifacts/d/a").check()
    first, _ = session.try_each(["y = 'a'", "y = 'b'"])
    assert first.ok
    session.commit(1)
    session.run("import os; os._exit(3)")
    session.run("f'{6 * 7}'").check()
    (tmp_path / "c").mkdir()
    out, err = limpet("export", session.name, str(tmp_path / "c"))
    session.export(tmp_path / "python")
    by_c, by_python = contents(tmp_path / "c"), contents(tmp_path / "python")
    assert out == f"{tmp_path}/c/notebook.ipynb\n" and "Traceback" not in err
    for c, python in zip(by_c, by_python):
        assert c == python
    assert {cell["cell_type"] for cell in by_c[0]["cells"]} == {"code", "raw"} and len(by_c[1]["artifacts"]) == 3
    assert sorted(os.listdir(tmp_path / "c")) == ["artifacts", "lock.json", "notebook.ipynb"]


def test_a_branch_is_not_exported(session, limpet, tmp_path):
    session.run("x = 1").check()
    branch = session.branch("b")
    assert "BadRequest" in limpet("export", branch.name, str(tmp_path / "out"), status=125)[1]
