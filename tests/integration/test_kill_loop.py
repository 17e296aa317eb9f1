"""The controller is killed again and again at random moments, under load, by calls in Python and bash, commands, processes, copies, opens, templates, saved
and sleeping sessions, packages and requests to the network: by itself, its files worker or its egress process, where a launcher starts them again, and together
with the launcher.

LIMPET_KILLS is how often with --full (default 8 on each engine); three times it is once each of them.
"""

import array
import contextlib
import os
import random
import signal
import sys
import tempfile
import threading
import time
import traceback

import limpet
import pytest

from tests.support import index as indexes
from tests.support.web import serving

from .killed import PATIENCE, children, read, wait_for

pytestmark = pytest.mark.engine

KILLS = int(os.environ.get("LIMPET_KILLS", "8"))


def until_there(ask):
    """What a controller answers. One that is not there when it is first asked is not waited for by the client."""
    while True:
        try:
            return ask()
        except limpet.Unavailable:
            time.sleep(0.01)


class Counter(threading.Thread):
    """A client that counts up in a session, one call after the other, until it is told to stop."""

    def __init__(self, controller, name):
        super().__init__()
        self.controller = controller
        self.name_of_session = name
        self.stop = threading.Event()
        self.count = 0
        self.artifacts = set()
        self.error = None

    def run(self):
        try:
            with self.controller.client() as client, until_there(lambda: client.open(self.name_of_session)) as session:
                session.run("n = 0")
                while not self.stop.is_set():
                    self.step(session)
                session.close()
        except BaseException as error:
            self.error = error

    def step(self, session):
        """One call: executed once, answered once, with its output and its file."""
        count = self.count + 1
        code = f"n += 1; print('call', n); open(f'/session/artifacts/{{n}}.txt', 'w').write(str(n)); n"
        if not self.controller.isolates:
            code = code.replace("/session/", "")
        result = session.run(code)
        assert (result.status, result.state, result.epoch) == ("ok", "kept", 1), result
        assert result.result == str(count), (result.result, count)
        assert result.stdout == f"call {count}\n", result
        assert result.execution_count == count + 1, result
        assert set(result.artifacts) == {f"/session/artifacts/{count}.txt"}, result.artifacts
        again = session.run(code, run_id=result.run_id)
        assert (again.result, again.execution_count) == (result.result, result.execution_count)
        self.count = count


class Speaker(Counter):
    """The same in the context of another language, which is opened anew each time and is the same one."""

    def step(self, session):
        count = self.count + 1
        line = 'n=$((n + 1)); echo "call $n"; echo $n > artifacts/$n.txt'
        result = session.context(language="bash").run(line)
        assert (result.status, result.state, result.epoch) == ("ok", "kept", 1), result
        assert (result.stdout, result.execution_count) == (f"call {count}\n", count), result
        assert set(result.artifacts) == {f"/session/artifacts/{count}.txt"}, result
        assert session.run(line, language="sh", run_id=result.run_id).stdout == result.stdout
        self.count = count


class Commander(Counter):
    """The same with commands, which run beside each other; what one has done is in a file."""

    def step(self, session):
        count = self.count + 1
        line = f"echo {count} >> log; sleep 0.02; wc -l < log; echo {count} > artifacts/{count}.txt"
        result = session.exec(line)
        assert (result.status, result.state, result.stdout.strip()) == ("ok", "kept", str(count)), result
        assert set(result.artifacts) == {f"/session/artifacts/{count}.txt"}, result
        assert session.exec(line, run_id=result.run_id).stdout == result.stdout
        self.count = count


class Starter(Counter):
    """The same with processes in the background, each of which outlives the asking for it; what they wrote is complete from
    any place, and each has one record."""

    def step(self, session):
        count = self.count + 1
        line = f"echo {count} >> started; for i in 1 2 3 4; do echo {count}.$i; sleep 0.05; done; wc -l < started"
        process = session.start(line)
        again = session.start(line, run_id=process.id)
        assert again.id == process.id
        said = "".join(f"{count}.{i}\n" for i in range(1, 5)) + f"{count}\n"
        assert "".join(output.text for output in process.follow()) == said
        since = len(said) // 2
        assert "".join(output.text for output in again.follow(since)) == said[since:]
        result = process.wait()
        assert (result.status, result.state, result.stdout) == ("ok", "kept", said), result
        assert again.wait() == result
        assert [row.written for row in session.processes() if row.id == process.id] == [len(said)]
        self.count = count


class Copier(Counter):
    """The same with a file that is copied there and back, over the one from before. Of a put that was broken off nobody knows
    whether it was done, but the file is the one from before or the new one, and whole."""

    SIZE = 3 << 20

    def step(self, session):
        count = self.count + 1
        with tempfile.TemporaryDirectory() as directory:
            there, back = os.path.join(directory, "there"), os.path.join(directory, "back")
            with open(there, "wb") as file:
                file.write(count.to_bytes(4, "big") * (self.SIZE // 4))
            while not self.put(session, there):
                assert self.count == 0 or self.copied(session, back) in ([count], [self.count])
            assert self.copied(session, back) == [count]
        self.count = count

    def put(self, session, path):
        try:
            session.put(path, "copy")
        except limpet.Unavailable:
            return False
        return True

    def copied(self, session, path):
        """The counts that are in the file. A controller that is not there when it is first asked is not waited for."""
        while True:
            try:
                session.get("copy", path)
                break
            except limpet.Unavailable:
                time.sleep(0.01)
        with open(path, "rb") as file:
            numbers = array.array("I", file.read())
        assert len(numbers) == self.SIZE // 4
        numbers.byteswap()
        return sorted(set(numbers))


class Requester(Counter):
    """The same with requests of the sandbox to a server of this machine, by a rule and by a binding. One that was broken off is made
    again: who may be reached, and with which key, is never forgotten."""

    CODE = """
import http.client, json, os, urllib.request
os.environ["no_proxy"] = os.environ["NO_PROXY"] = ""
def ask(url):
    try:
        with urllib.request.urlopen(url, timeout=100) as answer:
            return json.loads(answer.read())["headers"].get("authorization", "nobody")
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, http.client.HTTPException):  # in the middle of the answer, too
        return "again"
"""

    def run(self):
        with serving() as self.server:
            super().run()

    def asked(self, session, url):
        session.run(self.CODE)
        while (answer := session.run(f"ask({url!r})").check().result) == "'again'":
            time.sleep(0.01)
        return answer

    def step(self, session):
        count = self.count + 1
        session.set_network({"allow": [self.server.address]}, {"api": {"url": f"http://{self.server.address}", "headers": {"Authorization": str(count)}}})
        assert self.asked(session, "http://api.limpet/") == f"'{count}'"
        assert self.asked(session, f"http://{self.server.address}/") == "'nobody'"
        assert self.asked(session, "http://127.0.0.1:9/") == "403"
        self.count = count


class Opener(Counter):
    """The same with one session after the other, each with files of its own."""

    def step(self, session):
        count = self.count + 1
        with self.controller.client() as client:
            other = until_there(lambda: client.open(f"{self.name_of_session}-{count}", disk="32m"))
            assert other.run(f"open('x', 'w').write('{count}'); {count}").result == str(count)
            assert other.get("x") == str(count).encode()
            other.close()  # where it had to ask again it does not know that it has made it
        self.count = count


class Saver(Counter):
    """The same with a session that is saved and comes back from there: as it was, or there is none, and it is said."""

    LOST = (limpet.Unavailable, limpet.Internal, limpet.FileFailed, limpet.SaveFailed, limpet.RestoreFailed, limpet.NoSuchSession, limpet.SessionClosed)

    def step(self, session):
        count = self.count + 1
        result = session.run(f"n, files = {count}, open('file', 'w').write('{count}' * 500_000)")
        assert (result.status, result.state, result.epoch) == ("ok", "kept", 1), result
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "saved")
            self.until_done(lambda: session.save(path))
            assert os.listdir(directory) == ["saved"]
            self.until_done(lambda: self.restored(path, count))
        self.count = count

    def until_done(self, do):
        while True:
            try:
                return do()
            except self.LOST:
                time.sleep(0.01)

    def restored(self, path, count):
        name = f"{self.name_of_session}-{count}"
        with self.controller.client() as client:
            try:
                back = client.open(name, restore=path)
            except limpet.SessionExists:  # that it was restored, or closed, is what was lost
                back = client.open(name)
            assert back.run(f"n, open('file').read() == '{count}' * 500_000").result == f"({count}, True)"
            back.close()


class Sleeper(Counter):
    """The same with a session that is saved whenever it is idle for a moment, and woken by the next call."""

    def run(self):
        super().run()
        with self.controller.client() as client:
            until_there(lambda: client.close_session(self.idle))

    @property
    def idle(self):
        return f"{self.name_of_session}-idle"

    def step(self, session):
        count = self.count + 1
        with self.controller.client() as client:
            other = until_there(lambda: client.open(self.idle, ttl=0.2, ttl_action="save", disk="32m"))
            code = f"n = globals().get('n', 0) + 1; open('n', 'w').write(str(n)); n"
            result = other.run(code)
            assert (result.status, result.state, result.epoch) == ("ok", "kept", 1), result
            assert (result.result, result.execution_count) == (str(count), count), result
            assert result.restored in (None, []), result
            assert other.run(code, run_id=result.run_id).result == result.result
            if count % 2:
                until_there(lambda: self.is_saved(client))
        self.count = count

    def is_saved(self, client):
        [status] = [row.status for row in client.sessions() if row.session == self.idle]
        if status != "saved":
            raise limpet.Unavailable(status)


class Beginner(Counter):
    """The same with one version of a template after the other, and a session of each. Of a version that was broken off nobody
    knows whether it was made, but a session begins from the one before or from the new one, and a whole one."""

    version = 0

    def step(self, session):
        count = self.count + 1
        with self.controller.client() as client:
            self.connect(client)
            while not (made := self.make(client, session, count)) and count == 1:
                pass
            other = client.open(f"{self.name_of_session}-{count}", template=self.name_of_session)
            found = other.run("n, open('n').read()").result
            other.close()
        before, self.version = self.version, int(found.strip("(").partition(",")[0])
        assert self.version == count or (not made and self.version == before), (found, count, before)
        assert found == f"({self.version}, '{self.version}')"
        self.count = count

    def connect(self, client):
        """A controller that is not there when it is first asked is not waited for."""
        while True:
            try:
                client.sessions()
                return
            except limpet.Unavailable:
                time.sleep(0.01)

    def make(self, client, session, count):
        try:
            session.run(f"open('n', 'w').write('{count}')")
            client.template(self.name_of_session, session=session, setup=f"n = {count}", replace=True)
        except limpet.Unavailable:
            self.connect(client)
            return False
        return True


class Installer(Counter):
    """The same with one package after the other. Of an install that was broken off nobody knows whether it was done, but a package
    that is there is whole, and stays."""

    def step(self, session):
        count = self.count + 1
        self.controller.index.add(f"number{count}", files={f"number{count}.py": f"n = {count}"})
        while not self.installed(session, count):
            time.sleep(0.01)
        names = [f"number{i}" for i in range(1, count + 1)]
        assert session.run(f"import {', '.join(names)}; sum(each.n for each in [{', '.join(names)}])").result == str(sum(range(count + 1)))
        self.count = count

    def installed(self, session, count):
        try:
            return f"number{count}" in session.install([f"number{count}"]).packages
        except (limpet.Unavailable, limpet.InstallFailed):
            return False


def kill_process(limpetd, name):
    """Where it is a process of its own; the launcher may just be starting it."""
    for pid in children(limpetd.process.pid):
        if read(f"/proc/{pid}/comm") == f"{name}\n":
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(int(pid), signal.SIGKILL)


def kill(limpetd, turn):
    kill_process(limpetd, "limpet-egress")
    if limpetd.isolates and turn % 3:
        kill_process(limpetd, ("limpetd", "limpet-files")[turn % 3 - 1])
        return
    if not limpetd.isolates and turn % 2:
        return
    limpetd.kill()
    limpetd.start()


KINDS = (Counter, Speaker, Commander, Starter, Copier, Opener, Beginner, Saver, Sleeper, Requester, Installer)


@pytest.fixture
def indexed(own_limpetd, monkeypatch):
    """One whose package index is the test's, also when it starts again."""
    with indexes.serving() as own_limpetd.index:
        monkeypatch.setenv("LIMPET_PACKAGE_INDEX", f"{own_limpetd.index.url}/simple")
        yield own_limpetd


def where(counter):
    """What a counter is doing."""
    frame = sys._current_frames().get(counter.ident)
    return f"{type(counter).__name__} after {counter.count}:\n{''.join(traceback.format_stack(frame)[-8:]) if frame else 'has ended'}"


@pytest.mark.parametrize("kills", [3, pytest.param(KILLS, marks=pytest.mark.long)])
def test_nothing_is_lost_or_done_twice(indexed, name, kills):
    own_limpetd = indexed
    own_limpetd.start()
    counters = [kind(own_limpetd, f"{name}-{i}") for i, kind in enumerate(KINDS)]
    for counter in counters:
        counter.start()
    seed = random.randrange(1 << 32)
    generator = random.Random(seed)
    for turn in range(kills):
        time.sleep(generator.random())
        kill(own_limpetd, turn)
    for counter in counters:  # on a busy host all kills may have been before its first call
        wait_for(lambda: counter.count > 0 or not counter.is_alive(), lambda: f"{where(counter)}\n{own_limpetd.said()}")
        counter.stop.set()
    for counter in counters:
        counter.join(PATIENCE)
        assert counter.error is None, (seed, type(counter), counter.error)
        assert not counter.is_alive() and counter.count > 0, f"{seed}: {where(counter)}\n{own_limpetd.said()}"
    with own_limpetd.client() as client:
        assert client.sessions() == []
    assert own_limpetd.stop() == 0
    assert own_limpetd.leftovers() == {}
    removed = os.path.join(own_limpetd.directory, "state", "removed")
    assert not os.path.isdir(removed) or os.listdir(removed) == []
