"""The controller goes away."""

import os
import stat
import sys
import textwrap
import threading

import limpet
import pytest

from tests.support import ROOT, fake


@pytest.fixture
def successor(controller):
    """A controller for the same path, not started yet."""
    successor = fake.Controller(controller.path)
    yield successor
    successor.stop()


def replace(controller, successor):
    controller.stop()
    return successor.start()


def test_a_call_is_asked_again_with_its_run_id(session, controller, successor):
    controller.on("run", lambda request: None)
    successor.on("run", lambda request: request.record(result="from the second"))
    results = []
    thread = threading.Thread(target=lambda: results.append(session.run("x", timeout=9)))
    thread.start()
    controller.wait("run")
    replace(controller, successor)
    thread.join(60)
    assert results[0].result == "from the second"
    assert successor.bodies("run") == controller.bodies("run")


def test_output_that_was_missed_comes_from_the_record(session, controller, successor):
    def first(request):
        request.send("output", {"stream": 1, "data": b"one\n"})
        request.send("display", display("1"))

    def display(name):
        return {"data": {"text/plain": name}, "metadata": {}, "display_id": None, "is_result": False}

    controller.on("run", first)
    successor.on(
        "run",
        lambda request: request.record(
            stdout="one\ntwo\n", stderr="e", displays=[display("1"), display("2")]
        ),
    )
    stdout, stderr, shown, streamed = [], [], [], threading.Event()

    def on_display(display):
        shown.append(display.data["text/plain"])
        streamed.set()

    thread = threading.Thread(
        target=lambda: session.run(
            "x", on_stdout=stdout.append, on_stderr=stderr.append, on_display=on_display
        )
    )
    thread.start()
    assert streamed.wait(60)
    replace(controller, successor)
    thread.join(60)
    assert (stdout, stderr, shown) == (["one\n", "two\n"], ["e"], ["1", "2"])
    assert "stream" not in successor.bodies("run")[0]


def test_the_first_connection_is_not_waited_for(tmp_path):
    with limpet.Client(tmp_path / "nobody.sock", reconnect_timeout=60) as client:
        with pytest.raises(limpet.Unavailable):
            client.run("x")


def test_unavailable_as_an_answer_is_not_asked_again(session, controller):
    controller.on("run", lambda request: request.fail(1203, "Unavailable", "shutting down"))
    with pytest.raises(limpet.Unavailable, match="shutting down"):
        session.run("x")
    assert len(controller.bodies("run")) == 1


LIMPETD = """\
    #!{python}
    import os, sys
    sys.path.insert(0, {root!r})
    with open({log!r}, "a") as log:
        print(*sys.argv[1:], os.environ.get("LIMPET_SOCKET"), file=log)
    ready, tell = os.pipe()
    if os.fork():
        os.close(tell)
        os.read(ready, 1)
        sys.exit(0)
    from tests.support import fake
    controller = fake.Controller({path!r}).start()
    controller.on("shutdown", lambda request: (request.reply(), controller.vanish()))
    os.write(tell, b"x")
    os.close(tell)
    controller.wait_for_end()
"""


def program(path, text):
    path.write_text(textwrap.dedent(text))
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def limpetd(tmp_path):
    """A limpetd that --detach starts, for clients of tmp_path/limpet.sock."""
    text = LIMPETD.format(
        python=sys.executable,
        root=str(ROOT),
        log=str(tmp_path / "log"),
        path=str(tmp_path / "limpet.sock"),
    )
    (tmp_path / "bin").mkdir()
    return program(tmp_path / "bin" / "limpetd", text)


def log(tmp_path):
    return (tmp_path / "log").read_text().splitlines()


@pytest.mark.parametrize("found_by", ["LIMPETD", "PATH", "prefix"])
def test_autostart(tmp_path, monkeypatch, limpetd, found_by):
    monkeypatch.delenv("LIMPET_AUTOSTART")
    monkeypatch.setenv("LIMPET_SOCKET", str(tmp_path / "limpet.sock"))
    if found_by == "LIMPETD":
        monkeypatch.setenv("LIMPETD", limpetd)
    elif found_by == "PATH":
        monkeypatch.setenv("PATH", os.path.dirname(limpetd), prepend=os.pathsep)
    else:
        monkeypatch.setattr(sys, "prefix", str(tmp_path))
        monkeypatch.setenv("PATH", "/usr/bin:/bin")  # where no installed one is found first
    with limpet.Client() as client:
        assert client.run("1").ok
        client.shutdown()
    assert log(tmp_path) == [f"--detach {tmp_path}/limpet.sock"]


def test_autostart_at_a_given_address(tmp_path, monkeypatch, limpetd):
    monkeypatch.setenv("LIMPETD", limpetd)
    path = str(tmp_path / "limpet.sock")
    with limpet.Client(path, autostart=True) as client:
        assert client.run("1").ok
        client.shutdown()
    assert log(tmp_path) == [f"--detach {path}"]


def test_a_call_starts_the_next_controller(tmp_path, controller, limpetd, monkeypatch):
    monkeypatch.setenv("LIMPETD", limpetd)
    controller.on("run", lambda request: None)
    stopper = threading.Thread(target=lambda: (controller.wait("run"), controller.stop()))
    stopper.start()
    with limpet.Client(controller.path, autostart=True) as client:
        assert client.run("1").ok
        stopper.join(60)
        client.shutdown()
    assert len(log(tmp_path)) == 1


def test_autostart_may_be_forbidden(tmp_path, limpetd, monkeypatch):
    monkeypatch.setenv("LIMPETD", limpetd)
    for autostart in (None, False):
        with limpet.Client(tmp_path / "limpet.sock", autostart=autostart) as client:
            with pytest.raises(limpet.Unavailable, match="cannot be reached"):
                client.open("a")
    assert not (tmp_path / "log").exists()


def test_shutdown_starts_nothing(tmp_path, limpetd, monkeypatch):
    monkeypatch.setenv("LIMPETD", limpetd)
    with limpet.Client(tmp_path / "limpet.sock", autostart=True) as client, pytest.raises(limpet.Unavailable):
        client.shutdown()
    assert not (tmp_path / "log").exists()


def test_a_controller_that_does_not_start_says_why(tmp_path, monkeypatch):
    monkeypatch.setenv(
        "LIMPETD", program(tmp_path / "limpetd", "#!/bin/sh\necho 'no container engine' >&2\nexit 1\n")
    )
    with limpet.Client(tmp_path / "s", autostart=True) as client, pytest.raises(limpet.Unavailable) as caught:
        client.open("a")
    assert caught.value.message == "cannot start a controller: no container engine"


def test_there_is_no_limpetd(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with (
        limpet.Client(tmp_path / "s", autostart=True) as client,
        pytest.raises(limpet.Unavailable, match="LIMPETD"),
    ):
        client.open("a")


def test_the_socket_has_its_place(monkeypatch, tmp_path):
    from limpet._connection._address import standard_path

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert standard_path() == "/run/limpet/limpet.sock"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert standard_path() == "/tmp/limpet-1000/limpet.sock"
    monkeypatch.setenv("TMPDIR", "/var/tmp")
    assert standard_path() == "/var/tmp/limpet-1000/limpet.sock"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    assert standard_path() == "/run/user/1000/limpet/limpet.sock"
    monkeypatch.setenv("LIMPET_SOCKET", "/x/y.sock")
    assert standard_path() == "/x/y.sock"


@pytest.mark.parametrize("spoil", ["owner", "mode", "link"])
def test_a_shared_directory_that_is_not_ours_is_not_trusted(monkeypatch, tmp_path, spoil):
    """What somebody else put under the temporary directory must not get our code to run."""
    user = os.getuid() or 12345
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    directory = tmp_path / f"limpet-{user}"
    directory.mkdir(mode=0o700)
    if os.getuid() != user:
        os.chown(directory, user, user)
    controller = fake.Controller(directory / "limpet.sock").start()
    try:
        with limpet.Client() as client:
            assert client.run("1").ok
        if spoil == "owner":
            monkeypatch.setattr(os, "lstat", lambda path, stat=os.lstat: Foreign(stat(path), user + 1))
        elif spoil == "mode":
            directory.chmod(0o750)
        else:
            directory.rename(tmp_path / "elsewhere")
            directory.symlink_to(tmp_path / "elsewhere")
        with limpet.Client() as client, pytest.raises(limpet.Unavailable, match="of this user alone"):
            client.run("1")
    finally:
        controller.stop()


class Foreign:
    def __init__(self, status, uid):
        self.st_mode, self.st_uid = status.st_mode, uid
        assert stat.S_ISDIR(self.st_mode)
