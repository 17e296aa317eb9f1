"""Packages that are installed in a session while it runs, from an index on loopback."""

import os
import subprocess
import threading
import warnings

import limpet
import pytest

from tests.support import index as indexes
from tests.support.controllers import ENGINES
from tests.support.limpetd import Limpetd

from .killed import wait_for

pytestmark = pytest.mark.engine


LIMPET = os.path.join(os.environ.get("LIMPET_BUILD", "build/bin"), "limpet")


@pytest.fixture(scope="module")
def index():
    with indexes.serving() as index:
        index.add("greeting", files={"greeting/__init__.py": "import tone\nword = 'hello'\n", "greeting/late.py": "word = 'later'\n"},
                  requires=["tone"], scripts={"greet": "greeting.late:word.upper"})  # fmt: skip
        index.add("tone")
        index.add("other")
        index.add("both", "1.0", requires=["tone>=2"])
        index.add("tone2", "1.0", files={"tone2/__init__.py": ""}, requires=["tone<1"])
        index.add_file("source-only", "source-only-1.0.tar.gz", b"nothing that anybody unpacks")
        yield index


def start(controller, index, *more):
    return controller.start("--package-index", f"{index.url}/simple", *more)


@pytest.fixture(scope="module", params=ENGINES)
def limpetd(request, index):
    controller = Limpetd(request.param)
    try:
        yield start(controller, index)
        assert controller.stop() == 0
    finally:
        controller.stop()
        controller.remove()


def value(session, code):
    return session.run(code).check().result


# ---- what is installed is there ----


@pytest.mark.long
def test_they_are_there_when_an_idle_session_is_woken(client, limpetd, name):
    with client.open(name, packages=["greeting"], ttl=0.5, ttl_action="save") as session:
        value(session, "import greeting; greeting.word")
        wait_for(lambda: limpetd.sessions()[name].status == "saved")
        result = session.run("greeting.word")
        assert (result.result, result.state) == ("'hello'", "kept")


@pytest.mark.docker
@pytest.mark.proves("engine: attach_packages")
def test_installed_into_a_session_that_runs(session):
    session.run("import sys, json; kept = 41").check()
    said = []
    installed = session.install(["greeting"], on_progress=said.append)
    assert installed.packages == {"greeting": "1.0", "tone": "1.0"}
    assert "Successfully installed" in "".join(said)
    assert [line.split("==")[0] for line in installed.lock.splitlines()] == ["greeting", "tone"]
    assert installed.lock.count("--hash=sha256:") == 2
    assert value(session, "import greeting; greeting.word, kept") == "('hello', 41)"


@pytest.mark.long
def test_everything_in_the_session_has_it(session):
    session.run("before = 1").check()
    checkpoint = session.checkpoint()
    branch = session.branch("b")
    process = session.start("while ! python3 -c 'import greeting'; do sleep 0.05; done", name="waits")
    session.install(["greeting"])
    assert process.wait(60).status == "ok"
    assert value(branch, "import greeting; greeting.word") == "'hello'"
    session.rollback(checkpoint)
    assert value(session, "import greeting; greeting.word, before") == "('hello', 1)"
    assert value(session.context("fresh"), "import greeting; greeting.word") == "'hello'"
    assert session.exec("python3 -c 'import greeting; print(greeting.word)'").stdout == "hello\n"
    assert "LATER" in session.exec("greet").stderr  # its exit status
    session.reset()
    assert value(session, "import greeting; greeting.word") == "'hello'"


@pytest.mark.long
def test_a_cell_that_runs_can_import_it(session):
    waits = "import importlib.util, time\nwhile not importlib.util.find_spec('other'): time.sleep(0.01)\nimport other"
    results = []
    thread = threading.Thread(target=lambda: results.append(session.run(waits, timeout=60)))
    thread.start()
    session.install(["other"])
    thread.join()
    assert results[0].status == "ok", results[0].error


@pytest.mark.long
@pytest.mark.proves("engine: attach_packages")
def test_more_is_added_to_what_is_there(session):
    session.install(["greeting"])
    session.run("import greeting").check()
    assert session.install(["other"]).packages == {"greeting": "1.0", "other": "1.0", "tone": "1.0"}
    assert value(session, "import other, greeting.late; greeting.late.word") == "'later'"


@pytest.mark.docker
def test_nobody_can_change_it(session, limpetd):
    session.install(["greeting"])
    if limpetd.isolates:
        tried = session.exec("touch $PYTHONUSERBASE/x; rm -r $PYTHONUSERBASE/lib; mv $PYTHONUSERBASE /tmp/y; true")
        assert "Read-only file system" in tried.stderr
        assert session.exec("ls $PYTHONUSERBASE").stdout.split() == ["bin", "lib", "share"]


@pytest.mark.long
def test_the_second_session_has_it_at_once(client, session, name, index):
    session.install(["greeting"])
    asked = len(index.requests)
    with client.open(f"{name}-2") as second:
        installed = second.install(["greeting"])
        assert installed.cached and installed.packages == {"greeting": "1.0", "tone": "1.0"}
        assert value(second, "import greeting; greeting.word") == "'hello'"
    assert len(index.requests) == asked


@pytest.mark.long
def test_asked_twice_done_once(session, index):
    first = session.install(["greeting", "other"])
    asked = len(index.requests)
    again = session.install(["greeting", "other"])
    assert again.cached and again.lock == first.lock
    assert len(index.requests) == asked


@pytest.mark.long
def test_many_ask_for_the_same_at_once(client, name, index):
    index.add("popular")
    with client.open(f"{name}-1") as one, client.open(f"{name}-2") as two:
        threads = [threading.Thread(target=s.install, args=(["popular"],)) for s in (one, two, one, two)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert value(one, "import popular") == value(two, "import popular") is None
    fetched = [path for path in index.requests if path.startswith("/files/popular/") and path.endswith(".whl")]
    assert len(fetched) == 1


def test_opened_with_packages(client, name, tmp_path):
    file = tmp_path / "requirements.txt"
    file.write_text("# what it needs\ngreeting\n")
    with client.open(name, packages=file) as session:
        assert value(session, "import greeting; greeting.word") == "'hello'"
        assert session.options["packages"] == ["# what it needs", "greeting"]
        assert not client.open(name, packages=file).created
        with pytest.raises(limpet.OptionsDiffer):
            client.open(name, packages=["other"])


# ---- what cannot be installed ----


def fails(session, *packages, **how):
    with pytest.raises(limpet.InstallFailed) as caught:
        session.install(list(packages), **how)
    assert "\n" not in caught.value.message
    return caught.value


def test_no_such_package(session):
    error = fails(session, "nowhere")
    assert error.message == "there is no package 'nowhere' in the index"
    assert "No matching distribution" in error.log


@pytest.mark.long
def test_no_such_version(session):
    assert "satisfies 'tone==9'; there are 1.0" in fails(session, "tone==9").message


@pytest.mark.long
def test_no_wheel(session):
    assert "'source-only' has no wheel for Python 3." in fails(session, "source-only").message


@pytest.mark.long
def test_requirements_that_conflict(session):
    message = fails(session, "greeting", "tone2").message
    assert "conflict" in message or "tone" in message


@pytest.mark.long
def test_what_failed_changes_nothing(session):
    session.install(["other"])
    fails(session, "nowhere")
    assert value(session, "import other") is None
    assert session.install(["greeting"]).packages.keys() == {"greeting", "other", "tone"}


@pytest.mark.long
def test_no_requirements(session):
    for bad in (["--index-url=http://127.0.0.1:1"], ["-r /etc/passwd"], ["/etc"], [""], []):
        with pytest.raises(limpet.BadRequest):
            session.install(bad)


@pytest.mark.long
def test_time_limit(session, index):
    released = threading.Event()
    index.answer = lambda handler: "slow" in handler.path and (released.wait(60), False)[1]
    index.add("slow")
    try:
        assert fails(session, "slow", timeout=0.5).message.startswith("the packages were not installed within 0.5")
    finally:
        released.set()
        index.answer = None
    assert value(session, "1 + 1") == "2"


@pytest.mark.long
def test_a_session_that_is_closed_meanwhile(client, name, index):
    reached, released = threading.Event(), threading.Event()

    def answer(handler):
        if "late" in handler.path:
            reached.set()
            released.wait(60)

    index.answer = answer
    index.add("late")
    session = client.open(name)
    errors = []

    def install():
        try:
            session.install(["late"])
        except limpet.Error as error:
            errors.append(error)

    thread = threading.Thread(target=install)
    thread.start()
    try:
        assert reached.wait(60)
        client.close_session(name)
    finally:
        released.set()
        index.answer = None
    thread.join()
    assert [error.name for error in errors] == ["SessionClosed"]


@pytest.mark.long
def test_a_session_whose_packages_are_not_there_does_not_open(client, name):
    with pytest.raises(limpet.InstallFailed, match="no package 'nowhere'"):
        client.open(name, packages=["nowhere"])
    assert not {row.session: row.status for row in client.sessions() if row.status != "closing"}.get(name)


def test_packages_of_one_call(client, index):
    index.add("brief")
    first = client.run("import brief; brief.version", packages=["brief"]).check()
    asked = len(index.requests)
    again = client.run("import brief, sys; sys.stdout.write(brief.version)", packages=["brief"]).check()
    assert (first.result, again.stdout) == ("'1.0'", "1.0")
    assert len(index.requests) == asked
    assert client.run("import brief").error.name == "ModuleNotFoundError"


@pytest.mark.long
def test_a_call_whose_packages_are_not_there_does_not_begin(client):
    with pytest.raises(limpet.InstallFailed, match="no package 'nowhere'"):
        client.run("print('begun')", packages=["nowhere"])


@pytest.mark.long
def test_a_call_that_waits_for_its_packages_is_interrupted(client, index):
    reached, released, run_id = threading.Event(), threading.Event(), "ab" * 16

    def answer(handler):
        if "awaited" in handler.path:
            reached.set()
            released.wait(60)

    index.add("awaited")
    index.answer = answer
    results = []
    thread = threading.Thread(target=lambda: results.append(client.run("1", packages=["awaited"], run_id=run_id)))
    thread.start()
    try:
        assert reached.wait(60)
        assert client.interrupt(run_id)
    finally:
        released.set()
        index.answer = None
    thread.join()
    assert (results[0].status, results[0].error.name) == ("interrupted", "Interrupted")


@pytest.mark.long
def test_packages_of_one_call_of_the_command(limpetd):
    command = [LIMPET, "run", "--packages", "other", "-c", "import other; print(other.version)"]
    environment = os.environ | {"LIMPET_SOCKET": limpetd.socket, "LIMPET_AUTOSTART": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "1.0\n"), done.stderr


@pytest.mark.long
def test_an_index_that_is_away(own_limpetd, name):
    with indexes.serving() as gone:
        url = gone.url
    own_limpetd.start("--package-index", f"{url}/simple")
    with warnings.catch_warnings(), own_limpetd.client() as client, client.open(name) as session:
        warnings.simplefilter("ignore")
        assert "the package index" in fails(session, "anything").message


# ---- a controller that dies, and room ----


@pytest.mark.long
def test_known_after_a_crash(own_limpetd, index, name):
    start(own_limpetd, index)
    with warnings.catch_warnings(), own_limpetd.client() as client:
        warnings.simplefilter("ignore")
        session = client.open(name)
        lock = session.install(["greeting"]).lock
        own_limpetd.kill()
        start(own_limpetd, index)
        assert value(session, "import greeting; greeting.word") == "'hello'"
        again = session.install(["greeting"])
        assert again.cached and again.lock == lock
        assert session.install(["other"]).packages.keys() == {"greeting", "other", "tone"}


def install(client, name):
    session = client.open(name)
    assert session.install(["interrupted"]).packages == {"interrupted": "1.0"}
    return session.run("import interrupted; interrupted.version")


def run_alone(client, name):
    return client.run("import interrupted; interrupted.version", packages=["interrupted"])


@pytest.mark.long
@pytest.mark.parametrize("ask", [install, run_alone])
def test_a_crash_during_an_install(own_limpetd, index, name, ask):
    start(own_limpetd, index)
    reached, released = threading.Event(), threading.Event()

    def answer(handler):
        if "interrupted" in handler.path:
            reached.set()
            released.wait(60)

    index.answer = answer
    index.add("interrupted")
    with warnings.catch_warnings(), own_limpetd.client() as client:
        warnings.simplefilter("ignore")
        results = []
        thread = threading.Thread(target=lambda: results.append(ask(client, name)))
        thread.start()
        try:
            assert reached.wait(60)
            own_limpetd.kill()
        finally:
            index.answer = None
            released.set()
        start(own_limpetd, index)
        thread.join()
        assert results[0].check().result == "'1.0'"


@pytest.mark.long
def test_unused_packages_make_room(own_limpetd, index, name):
    start(own_limpetd, index, "--packages-size", "1")
    with warnings.catch_warnings(), own_limpetd.client() as client:
        warnings.simplefilter("ignore")
        with client.open(name) as session:
            session.install(["greeting"])
        with client.open(f"{name}-2") as session:
            session.install(["other"])
            while "removed unused packages" not in own_limpetd.said():
                assert value(session, "import other") is None
            assert session.install(["other"]).cached
        with client.open(name) as session:
            assert not session.install(["greeting"]).cached


@pytest.mark.long
def test_what_was_installed_stays_when_the_set_it_replaced_is_removed(own_limpetd, index, name):
    start(own_limpetd, index, "--packages-size", "1")
    with warnings.catch_warnings(), own_limpetd.client() as client:
        warnings.simplefilter("ignore")
        with client.open(name) as session:
            for package in "other", "tone", "greeting":
                session.install([package])
            wait_for(lambda: sum(len(entry) == 64 for entry in os.listdir(f"{own_limpetd.directory}/state/packages")) == 1)
            assert value(session, "import greeting, other, tone; other.version, tone.version") == "('1.0', '1.0')"


# ---- what is there already ----


@pytest.mark.long
def test_what_is_installed_is_not_replaced(client, session, name, index):
    index.add("changing", "1.0")
    session.install(["changing==1.0"])
    index.add("changing", "2.0")
    index.add("wants", requires=["changing>=2"])
    assert session.install(["changing"]).packages["changing"] == "1.0"
    for wanted in ("changing==2.0", "wants"):
        message = fails(session, wanted).message
        assert message.startswith("changing 1.0 is there already, and is not replaced"), message
    assert value(session, "import changing; changing.version") == "'1.0'"
    with client.open(f"{name}-2", packages=["wants"]) as other:
        assert value(other, "import changing; changing.version") == "'2.0'"


@pytest.mark.long
def test_what_the_image_has_is_replaced_before_anything_runs(client, session, name, index):
    index.add("packaging", "99.0")
    assert "is not replaced" in fails(session, "packaging==99.0").message
    assert "99.0" != value(session, "import packaging; packaging.__version__")
    with client.open(f"{name}-2", packages=["packaging==99.0"]) as fresh:
        assert value(fresh, "import packaging; packaging.version") == "'99.0'"
