"""Packages that mean harm, and processes in a session that ask for them: they reach their own session, and nothing else."""

import contextlib
import os
import stat
import subprocess
import zipfile

import limpet
import pytest

from tests.support import index as indexes
from tests.support.controllers import ENGINES
from tests.support.limpetd import serving

from .test_packages import fails, value

pytestmark = [pytest.mark.engine, pytest.mark.long]

LIMPET = os.path.join(os.environ.get("LIMPET_BUILD", "build/bin"), "limpet")


@pytest.fixture(scope="module")
def index():
    with indexes.serving() as index:
        index.add("good")
        yield index


@pytest.fixture(scope="module", params=ENGINES)
def limpetd(request, index):
    with serving(request.param, "--package-index", f"{index.url}/simple", "--packages-disk", "16m") as limpetd:
        yield limpetd


@pytest.fixture
def session(client, name):
    with client.open(name, pip="allow") as session:
        yield session


def entry(path, mode=stat.S_IFREG | 0o644):
    info = zipfile.ZipInfo(path, (2024, 1, 1, 0, 0, 0))
    info.external_attr = mode << 16
    return info


def stored(limpetd):
    """Every path in the store of packages."""
    place = os.path.join(limpetd.directory, "state", "packages")
    return {os.path.join(above, each) for above, _, files in os.walk(place) for each in files}


# ---- wheels ----


def test_paths_that_lead_out(session, limpetd, index):
    outside = f"/tmp/limpet-escaped-{session.name}"
    for path in ("../../../../escaped", outside, "escape/../../../../escaped"):
        name = f"escape{len(index.projects)}"
        index.add_file(name, f"{name}-1.0-py3-none-any.whl", indexes.wheel(name, raw=[(entry(path), b"evil")]))
        with contextlib.suppress(limpet.InstallFailed):
            session.install([name])
    assert not [path for path in stored(limpetd) if "escaped" in os.path.basename(path)]
    assert not os.path.exists(outside)
    assert value(session, "1 + 1") == "2"


def test_links_and_modes(session, limpetd, index):
    raw = [
        (entry("linked/passwd", stat.S_IFLNK | 0o777), b"/etc/passwd"),
        (entry("linked/root.sh", stat.S_IFREG | 0o6755), b"#!/bin/sh\n"),
        (entry("linked/pipe", stat.S_IFIFO | 0o666), b""),
    ]
    index.add_file("linked", "linked-1.0-py3-none-any.whl", indexes.wheel("linked", files={"linked/__init__.py": ""}, raw=raw))
    session.install(["linked"])
    found = {os.path.basename(path): os.lstat(path) for path in stored(limpetd) if "/linked/" in path}
    assert all(stat.S_ISREG(status.st_mode) and not status.st_mode & 0o7222 for status in found.values())
    assert "passwd" not in found or found["passwd"].st_size == len("/etc/passwd")


def test_code_that_runs_at_start(session, client, name, index, limpetd):
    """In a .pth file, where every Python of the session runs it, and that of the next installer."""
    mark = f"/tmp/limpet-pth-{name}"
    evil = f"import os; open('{mark}', 'w').close(); os.environ.get('LIMPET_INDEX') and open('packages/base/left', 'w').close()\n"
    index.add("starts", files={"starts.pth": evil, "starts/__init__.py": ""})
    session.install(["starts"])
    assert session.install(["good"]).packages.keys() == {"starts", "good"}
    with client.open(f"{name}-2") as other:
        assert other.install(["good"]).packages == {"good": "1.0"}
        if limpetd.isolates:
            assert other.exec(f"python3 -c 1; test -e {mark}").exit_code == 1
    if limpetd.isolates:
        assert not os.path.exists(mark)
    elif os.path.exists(mark):
        os.unlink(mark)


def test_a_package_that_is_too_large(session, limpetd, index):
    index.add("huge", files={"huge/__init__.py": "", "huge/data": bytes(64 << 20)})
    assert "packages_disk" in fails(session, "huge").message
    assert not [path for path in stored(limpetd) if "/huge/" in path]
    assert session.install(["good"]).packages == {"good": "1.0"}


def test_modules_of_python_are_not_shadowed(session, index):
    index.add("shadow", files={"json/__init__.py": "evil = 1\n", "sitecustomize.py": "evil = 1\n", "shadow.py": ""})
    session.install(["shadow"])
    assert value(session, "import json; hasattr(json, 'evil')") == "False"
    assert session.exec("python3 -c 'import json; json.evil'").exit_code == 1


def test_a_name_that_is_no_name(session, index):
    index.add("odd", version="1.0", files={"odd.py": ""})
    name, content = "odd-2.0-py3-none-any.whl", indexes.wheel("odd", "2.0\x1b[2J", files={"odd.py": ""})
    index.add_file("odd", name, content)
    with contextlib.suppress(limpet.InstallFailed):
        installed = session.install(["odd"])
        assert "\x1b" not in installed.lock
    assert value(session, "1 + 1") == "2"


def test_an_index_that_answers_nonsense(session, index):
    def answer(handler):
        if "strange" not in handler.path:
            return False
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html")
        handler.end_headers()
        handler.wfile.write(b"<a href='" + b"A" * 100000 + b"'>\xff\x00" + b"<" * 1000)
        return True

    index.answer = answer
    try:
        fails(session, "strange")
    finally:
        index.answer = None
    assert session.install(["good"]).packages.keys() >= {"good"}


def test_a_file_that_is_not_the_one_that_was_promised(session, index):
    index.add("swapped")
    index.answer = lambda handler: (
        handler.path.startswith("/files/swapped/") and (handler.wfile.write(b"HTTP/1.0 200 OK\r\n\r\nother"), True)[1]
    )
    try:
        fails(session, "swapped")
    finally:
        index.answer = None


# ---- pip inside ----


def asks(session, code):
    """A process of the session talks to the supervisor; what it got."""
    program = (
        "import os, socket\ns = socket.socket(socket.AF_UNIX)\ns.settimeout(60)\ns.connect(os.environ['LIMPET_PIP'])\n" + code
    )
    return session.exec(["python3", "-c", program], timeout=90)


def pip(session, *words):
    return session.exec(["sh", "-c", f"{PIP} \"$@\"", "pip", *words], timeout=90)


# Where the engine has no image ours is not first in PATH.
PIP = f"$(command -v /usr/local/bin/pip || echo python3 {os.path.abspath('build/lib/limpet/python/limpet_pip')})"


def test_pip_installs_where_it_may(session):
    done = pip(session, "install", "-q", "good")
    assert done.exit_code == 0, done.stderr
    assert value(session, "import good; good.version") == "'1.0'"
    assert "is there" not in pip(session, "install", "nowhere").stdout
    assert pip(session, "install", "nowhere").exit_code == 1
    assert pip(session, "install", "-e", ".").exit_code == 2
    assert pip(session, "uninstall", "good").exit_code == 2


def test_pip_in_a_cell_that_runs(session, limpetd):
    command = ["/usr/local/bin/pip"] if limpetd.isolates else ["python3", os.path.abspath("build/lib/limpet/python/limpet_pip")]
    cell = f"import subprocess\nsubprocess.run({[*command, 'install', 'good']!r}, check=True)\nimport good\ngood.version"
    assert session.run(cell, timeout=90).check().result == "'1.0'"
    if limpetd.isolates:
        assert session.exec("python3 -m pip list").stdout.count("good") == 1


def test_pip_is_refused_where_it_may_not(client, name):
    with client.open(name) as session:
        done = pip(session, "install", "good")
        assert done.exit_code == 1 and "`limpetd --pip allow`" in done.stdout and 'code_sandbox(pip="allow")' in done.stdout
        assert session.run("import good").status == "error"
    with client.open(f"{name}-2", pip=["good"]) as session:
        assert session.options["pip"] == ["good"]
        assert pip(session, "install", "good", "other").exit_code == 1
        assert pip(session, "install", "good @ http://127.0.0.1/x.whl").exit_code == 2
        assert "and no others: good" in asks(session, "s.sendall(b'good @ http://h\\n'); s.shutdown(1); print(s.recv(1000))").stdout
        assert pip(session, "install", "Good==1.0").exit_code == 0


def test_processes_that_ask_and_do_not_listen(session):
    for code in (
        "s.close()",
        "s.sendall(b'good\\n'); s.close()",
        "s.sendall(b'\\xff\\0' * 1000); s.shutdown(1); print(s.recv(1000))",
        "s.sendall(b'good\\n' * 20000)",
        "many = [socket.socket(socket.AF_UNIX) for _ in range(100)]\n[m.setblocking(0) for m in many]\n"
        "[m.connect_ex(os.environ['LIMPET_PIP']) for m in many]",
    ):
        asks(session, code)
    assert pip(session, "install", "good").exit_code == 0


# ---- the command ----


def run_limpet(limpetd, *words, status=0):
    environment = os.environ | {"LIMPET_SOCKET": limpetd.socket, "LIMPET_AUTOSTART": "0"}
    done = subprocess.run([LIMPET, *words], capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == status, done.stderr
    return done


def test_command(session, limpetd, tmp_path):
    file = tmp_path / "requirements.txt"
    file.write_text("good==1.0  # why\n")
    done = run_limpet(limpetd, "install", session.name, "-r", str(file))
    assert done.stdout == "good 1.0\n"
    assert run_limpet(limpetd, "install", "--lock", "-q", session.name, "good").stdout.startswith("good==1.0 --hash=sha256:")
    assert '"cached":true' in run_limpet(limpetd, "install", "--json", session.name, "good").stdout.replace(" ", "")
    failed = run_limpet(limpetd, "install", "-q", session.name, "nowhere", status=125)
    assert failed.stderr.endswith("limpet: InstallFailed: there is no package 'nowhere' in the index\n")
    assert "No such file" in run_limpet(limpetd, "install", session.name, "-r", "/nowhere", status=2).stderr
    run_limpet(limpetd, "install", session.name, status=125)
