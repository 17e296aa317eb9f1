"""Templates: sessions that begin from a sandbox in which files, environment and setup code have happened."""

import os
import signal
import threading

import limpet
import pytest

from tests.support import index as indexes

from .killed import Asking, wait_for
from .scripted import GUEST
from .pooled import Pool, pool, settings  # noqa: F401
from .users import Refused
from .test_users import house, shared  # noqa: F401


@pytest.fixture
def client(pool):
    return pool.client


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "table.csv").write_text("1,2")
    (tmp_path / "link").symlink_to("data/table.csv")
    return tmp_path


def stored(pool):
    """Names of the records, and of the directories of files."""
    return sorted(os.listdir(pool.path("templates"))), sorted(os.listdir(pool.path("template-files")))


@pytest.mark.engine
@pytest.mark.docker
def test_all_of_it_has_happened(client, directory):
    setup = "import os, json\ntable = open('data/table.csv').read()\nlevel = os.environ['LEVEL']\nprint('unheard')"
    made = client.template("analyst", files=directory, env={"LEVEL": "3"}, setup=setup)
    assert (made.name, made.user, made.image, made.env, made.setup) == ("analyst", os.getuid(), None, ("LEVEL",), len(setup))
    assert made.files > 0 and client.templates() == [made]
    with client.open("a", template="analyst") as session:
        result = session.run("table, level, os.readlink('link'), json.dumps(1)")
        assert (result.result, result.stdout) == ("('1,2', '3', 'data/table.csv', '1')", "")
        assert (result.execution_count, result.changed, result.state) == (1, limpet.Changed(), "kept")
        assert session.options["template"] == "analyst" and session.options["env"] == {"LEVEL": "3"}
        assert [row.session for row in client.sessions()] == ["a"]


def test_the_spare_that_was_tried_is_the_first(client):
    client.template("slow", setup="import time; begun = time.monotonic(); time.sleep(0.3)")
    before = "import time; time.monotonic() - begun"
    with client.open("a", template="slow") as session:
        assert float(session.run(before).result) > 0.3
        pid = session.run("import os; os.getpid()").result
        with client.open("b", template="slow") as other:  # built while it waits, or by the pool meanwhile
            assert float(other.run(before).result) > 0.3
            assert session.run("os.getpid()").result == pid


@pytest.mark.engine
def test_one_is_kept_ready(pool):
    pool.client.template("t", setup="x = 1")
    pool.ready(2)
    with pool.client.open("a", template="t"):
        pool.ready(2)


def test_what_is_given_wins(client):
    client.template("t", env={"A": "1", "B": "2"}, setup="import os; seen = os.environ['A']; os.environ['C'] = '3'")
    with client.open("a", template="t", env={"A": "9", "D": "4"}, memory="700m", timeout=7) as session:
        result = session.run("seen, [os.environ.get(name) for name in 'ABCD']").result
        assert result == "('1', ['9', '2', '3', '4'])"
        assert (session.options["memory"], session.options["timeout"]) == (700 << 20, 7)
        client.open("a", template="t", env={"A": "9", "D": "4"})
        client.open("a")
        with pytest.raises(limpet.OptionsDiffer) as differs:
            client.open("a", template="t", env={"A": "8"})
        assert differs.value.options == ("env",)
        client.template("other")
        with pytest.raises(limpet.OptionsDiffer) as differs:
            client.open("a", template="other")
        assert differs.value.options == ("template",)


@pytest.mark.parametrize("checkpoint", ["auto", "always"])
def test_a_lost_first_call_goes_back_to_after_the_setup(client, checkpoint):
    client.template("t", setup="x = 41")
    with client.open("a", template="t", checkpoint=checkpoint) as session:
        result = session.run("x = 0; import os; os._exit(3)")
        assert (result.status, result.state, result.epoch) == ("exited", "rolled_back", 2)
        assert session.run("x + 1").result == "42"
        session.reset()
        assert session.run("x + 1").result == "42"
        assert session.branch("b").run("x + 1").result == "42"


@pytest.mark.engine
def test_random_numbers_differ_between_sessions(client):
    client.template("t", setup="import random, uuid; random.random()")
    seen = set()
    for name in "abc":
        with client.open(name, template="t") as session:
            seen.update(session.run("f'{random.random()} {uuid.uuid4()}'").result.strip("'").split())
    assert len(seen) == 6


def test_artifacts_of_a_template_are_no_calls(pool, directory):
    (directory / "artifacts").mkdir()
    (directory / "artifacts" / "of-files").write_text("1")
    prefix = "/session/" if pool.limpetd.isolates else ""
    write = f"open('{prefix}artifacts/%s', 'w').write('2')"
    pool.client.template("t", files=directory, setup=write % "of-setup")
    with pool.client.open("a", template="t") as session:
        assert list(session.run(write % "own").artifacts) == ["/session/artifacts/own"]
        assert sorted(os.listdir(pool.path("sessions", "a", "artifacts"))) == ["own"]
        assert list(session.run(write % "of-files").artifacts) == ["/session/artifacts/of-files"]


@pytest.mark.engine
def test_a_call_in_a_container_of_its_own(client, directory):
    (directory / "artifacts").mkdir()
    (directory / "artifacts" / "of-files").write_text("1")
    client.template("t", files=directory, env={"A": "1"}, setup="x = open('data/table.csv').read()")
    for _ in range(2):
        result = client.run("import os; x, os.environ['A']", template="t")
        assert (result.result, result.session, result.artifacts) == ("('1,2', '1')", None, {})
    assert client.run("'x' in globals()").result == "False"


@pytest.mark.parametrize(
    "setup, message, traceback",
    [
        ("def f():\n    return 1 / 0\nf()", "'bad' did not end well: ZeroDivisionError: division by zero", "line 3, in <module>"),
        ("import os; os._exit(4)", "Exited: the setup code ended its interpreter with exit code 4", ""),
    ],
)
def test_a_failure_is_told_and_nothing_kept(pool, directory, setup, message, traceback):
    with pytest.raises(limpet.TemplateFailed) as failed:
        pool.client.template("bad", files=directory, setup=setup)
    assert message in str(failed.value) and traceback in failed.value.traceback
    assert pool.client.templates() == [] and pool.client.sessions() == []
    wait_for(lambda: stored(pool) == ([], []))
    with pytest.raises(limpet.NoSuchTemplate, match="no template 'bad'"):
        pool.client.open("a", template="bad")
    pool.ready()


@pytest.mark.long
def test_setup_code_has_its_time(own_limpetd, settings):
    settings(pool=1)
    with own_limpetd.start("--template-setup-timeout", "5").client() as client:
        for code in ("while True: pass", "import time; time.sleep(1000)"):
            with pytest.raises(limpet.TemplateFailed, match="TimeoutKilled: the setup code took longer than 5 s, and was ended"):
                client.template("slow", setup=code)
        assert client.templates() == [] and client.sessions() == []
        client.template("quick", setup="x = 41")
        with client.open("a", template="quick") as session:
            assert session.run("x + 1").result == "42"


def test_what_cannot_be(client, directory):
    with pytest.raises(limpet.BadRequest, match="image"):
        client.template("t", image="no/../image")
    if client.open("probe").engine != "local":
        with pytest.raises(limpet.ImageMissing):
            client.template("t", image="no-such-image")
    with pytest.raises(limpet.BadRequest):
        client.template("not a name")
    with pytest.raises(limpet.BadRequest, match="env"):
        client.template("t", env={"A=B": "1"})
    with pytest.raises(NotADirectoryError):
        client.template("t", files=directory / "link")
    with pytest.raises(limpet.NoSuchSession):
        client.template("t", session="nobody")
    with pytest.raises(limpet.BadRequest, match="not from both"):
        client.template("t", session="probe", files=directory)
    (directory / "out").symlink_to("/etc/passwd")
    with pytest.raises(limpet.BadRequest, match="out"):
        client.template("t", files=directory)
    client.close_session("probe")
    assert client.templates() == [] and client.sessions() == []


@pytest.mark.engine
def test_of_a_session(pool):
    with pool.client.open("a", env={"A": "1"}) as session:
        session.run("import os; os.symlink('/etc/passwd', 'link'); open('file', 'w').write('1'); x = 1").check()
        session.run("os.mkfifo('pipe')").check()
        made = pool.client.template("t", session=session, setup="import os; y = open('file').read()")
        assert made.env == ("A",)
        session.run("open('file', 'w').write('2')")
    with pool.client.open("b", template="t") as session:
        result = session.run("y, 'x' in globals(), os.environ['A'], os.path.lexists('pipe'), os.readlink('link')")
        assert result.result == "('1', False, '1', False, '/etc/passwd')"


def test_removing_and_replacing_leave_sessions_alone(pool):
    client = pool.client
    client.template("t", setup="x = 1")
    with client.open("a", template="t") as session:
        with pytest.raises(limpet.TemplateExists, match="'t' already"):
            client.template("t", setup="x = 2")
        pool.ready(2)
        client.template("t", setup="x = 2", replace=True)
        with client.open("b", template="t") as other:
            assert (session.run("x").result, other.run("x").result) == ("1", "2")
        client.remove_template("t")
        pool.ready(1)
        session.run("import os; os._exit(1)")
        assert session.run("x").result == "1"
        assert client.open("a", template="t").run("x").result == "1"
        with pytest.raises(limpet.NoSuchTemplate):
            client.remove_template("t")
    assert client.templates() == []


def test_a_failed_replacement_leaves_the_old_one(client):
    client.template("t", setup="x = 1")
    with pytest.raises(limpet.TemplateFailed):
        client.template("t", setup="x = y", replace=True)
    with client.open("a", template="t") as session:
        assert session.run("x").result == "1"


def test_many_at_once(client):
    client.template("t", setup="n = 41")
    opening = [Asking(client.open, f"s{n}", template="t") for n in range(6)]
    sessions = [asking.result() for asking in opening]
    assert len({row.container for row in client.sessions()}) == 6
    assert all(session.run("n").result == "41" for session in sessions)
    for session in sessions:
        session.close()


def test_who_waits_for_one_that_is_removed_is_told(pool):
    pool.client.template("slow", setup="import time; time.sleep(5)")
    known = set(pool.spare_directories())
    opening = Asking(pool.client.open, "a", template="slow", memory="800m")  # no spare has so much
    wait_for(lambda: set(pool.spare_directories()) - known)
    pool.client.remove_template("slow")
    with pytest.raises(limpet.NoSuchTemplate, match="removed or replaced"):
        opening.result()
    assert pool.client.sessions() == []


@pytest.mark.engine
def test_they_survive_the_controller(pool, directory):
    client = pool.client
    made = client.template("t", files=directory, env={"A": "1"}, setup="x = open('data/table.csv').read()")
    with client.open("a", template="t") as session:
        os.makedirs(pool.path("template-files", "of-nobody", "deep"))
        with open(pool.path("templates", "0@damaged"), "wb") as damaged:
            damaged.write(b"\x81")
        pool.again()
        assert client.templates() == [made]
        assert session.run("x").result == "'1,2'"
        assert client.open("a", template="t").options["template"] == "t"
        assert os.path.exists(pool.path("template-files", "of-nobody"))  # whose it is cannot be known
        os.unlink(pool.path("templates", "0@damaged"))
        pool.again()
        wait_for(lambda: not os.path.exists(pool.path("template-files", "of-nobody")))
        with client.open("b", template="t") as other:
            assert other.run("x").result == "'1,2'"


@pytest.mark.engine
@pytest.mark.parametrize("pause", [0, 0.2, *(pytest.param(pause, marks=pytest.mark.long) for pause in (0.05, 0.4))])
def test_killed_while_one_is_made(pool, directory, pause):
    """It is there as a whole, or nothing of it is."""
    making = pool.asking(lambda: pool.client.template("t", files=directory, setup="import time; time.sleep(0.1)"))
    threading.Event().wait(pause)
    pool.again()
    try:
        made = [making.result()]
    except (limpet.Unavailable, limpet.NoSuchSession):
        made = pool.client.templates()  # it may have been made all the same
    assert [tmpl.name for tmpl in pool.client.templates()] == [tmpl.name for tmpl in made]
    wait_for(lambda: len(stored(pool)[1]) == len(made))
    for row in pool.client.sessions():  # that the files were put into
        pool.client.close_session(row.session)
    pool.client.template("t", setup="x = 1", replace=True)
    with pool.client.open("a", template="t") as session:
        assert session.run("x").result == "1"
    pool.ready(2)


def test_spares_of_a_killed_controller_are_nobodys(pool):
    pool.client.template("t", setup="x = 1")
    pool.ready(2)
    before = set(pool.supervisors())
    pool.again()
    with pool.client.open("a", template="t") as session:
        assert session.run("x").result == "1"
        wait_for(lambda: not before & set(pool.supervisors()))


def test_a_spare_that_died_is_not_handed_out(pool):
    pool.client.template("t", setup="x = 1")
    pool.ready(2)
    for pid in pool.supervisors().values():
        os.kill(pid, signal.SIGKILL)
    with pool.client.open("a", template="t") as session:
        assert session.run("x").result == "1"


def test_without_a_pool(own_limpetd, settings):
    settings(pool=0)
    with own_limpetd.start().client() as client:
        client.template("t", setup="x = 1")
        for name in "ab":
            with client.open(name, template="t") as session:
                assert session.run("x").result == "1"
    assert own_limpetd.stop() == 0 and own_limpetd.leftovers() == {}


@pytest.mark.long
def test_packages_are_there_before_the_setup(own_limpetd, settings):
    """Also when the index is gone, in the containers of another controller, and when packages are added."""
    settings(pool=1)
    with indexes.serving() as index:
        index.add("greeting", files={"greeting.py": "word = 'hello'"})
        index.add("other", files={"other.py": "word = 'more'"})
        arguments = ("--package-index", f"{index.url}/simple")
        with own_limpetd.start(*arguments).client() as client:
            with pytest.raises(limpet.InstallFailed):
                client.template("polite", packages=["there-is-none"])
            assert client.templates() == []
            client.template("polite", packages=["greeting"], setup="import greeting; word = greeting.word")
            with client.open("a", template="polite") as session:
                assert session.run("word, __import__('greeting').word").result == "('hello', 'hello')"
            with client.open("b", template="polite", packages=["other"]) as session:
                assert session.run("word, __import__('other').word").result == "('hello', 'more')"
    own_limpetd.kill()
    with own_limpetd.start(*arguments).client() as client, client.open("c", template="polite") as session:
        assert session.run("import subprocess, sys; word, greeting.__file__").result.startswith("('hello', ")
        client.template("more", session=session, setup="import greeting")
        with client.open("d", template="more") as other:
            assert other.run("greeting.word").result == "'hello'"


SAYS = """                if "setup" in body:
                    self.peer.send(*{says}(id))
                elif "imports" in body:"""


@pytest.mark.engine
@pytest.mark.parametrize(
    "says, told",
    [
        ("lambda id: ('error', id, {'number': 1001, 'name': 'BadRequest', 'message': 'unknown field `setup`'})", "is of an older version; build it again"),
        ("lambda id: ('prepared', 0, {'failed': [], 'error': {'name': 'E' * 900, 'message': 'm' * 90000, 'traceback': 't'}})", "did not end well: EEE"),
        ("lambda id: ('prepared', 0, {'failed': [], 'error': {'name': 7, 'message': '', 'traceback': ''}})", "broke the protocol"),
        ("lambda id: ('prepared', 0, {'failed': [], 'error': 'x'})", "broke the protocol"),
        ("lambda id: ('prepared', 0, {})", "broke the protocol"),
    ],
)
def test_a_guest_that_is_older_or_makes_no_sense(own_limpetd, settings, tmp_path, says, told):
    if own_limpetd.isolates:
        pytest.skip("the guest of a container is in its image")
    with open(GUEST, encoding="utf-8") as file:
        text = file.read().replace("os.path.abspath(__file__)", repr(GUEST))
    changed = text.replace('                if "imports" in body:', SAYS.replace("{says}", f"({says})"))
    assert changed != text
    guest = tmp_path / "guest"
    guest.write_text(changed)
    guest.chmod(0o755)
    settings(guest=guest, pool=0)
    with own_limpetd.start().client() as client:
        with pytest.raises(limpet.TemplateFailed, match=told):
            client.template("t", setup="x = 1")
        assert client.templates() == []
        client.template("empty")
    assert own_limpetd.stop() == 0


@pytest.mark.engine
def test_files_that_have_no_room(pool, directory):
    if not pool.limpetd.isolates:
        pytest.skip("the engine local has no disks")
    (directory / "large").write_bytes(os.urandom(8 << 20))
    pool.client.template("t", files=directory)
    with pytest.raises(limpet.TooLarge, match="have no room in /session"):
        pool.client.open("a", template="t", disk="5m")


@pytest.mark.engine
def test_data_where_there_is_none(pool, tmp_path):
    if pool.limpetd.isolates:
        pytest.skip("only the engine local has no /data")
    pool.client.template("t")
    with pytest.raises(limpet.Error, match="no /data"):
        pool.client.open("a", template="t", data=tmp_path)
    with pool.client.open("a", template="t") as session:
        assert session.run("1").result == "1"


@pytest.mark.engine
@pytest.mark.proves("security: other users of the same controller")
def test_each_user_has_their_own(shared):
    shared.root.template("common", setup="x = 'root'")
    shared.root.template("private", setup="x = 'root'")
    shared.alice.ask(lambda client: client.template("private", setup="x = 'alice'").user)
    look = lambda name: lambda client: client.open("s-" + name, template=name).run("x").result  # noqa: E731
    assert [shared.alice.ask(look(name)) for name in ("common", "private")] == ["'root'", "'alice'"]
    assert shared.bob.ask(look("private")) == "'root'"
    names = lambda client: sorted((row.name, row.user) for row in client.templates())  # noqa: E731
    assert shared.bob.ask(names) == [("common", 0), ("private", 0)]
    assert shared.alice.ask(names) == [("common", 0), ("private", shared.alice.uid)]
    shared.alice.ask(lambda client: client.remove_template("private"))
    assert shared.alice.ask(names) == [("common", 0), ("private", 0)]
    with pytest.raises(Refused, match="controller's user"):
        shared.alice.ask(lambda client: client.remove_template("private"))
    with pytest.raises(Refused, match="NoSuchSession"):
        shared.bob.ask(lambda client: client.template("mine", session="s-common-of-alice"))
