"""Packages without a wheel: refused, or built in the installer where the session says so."""

import pytest

from tests.support import index as indexes
from tests.support.controllers import ENGINES
from tests.support.limpetd import serving

from .test_packages import fails, value

pytestmark = [pytest.mark.engine, pytest.mark.long]


@pytest.fixture(scope="module")
def index():
    with indexes.serving() as index:
        index.add("good")
        yield index


@pytest.fixture(scope="module", params=ENGINES)
def limpetd(request, index):
    with serving(request.param, "--package-index", f"{index.url}/simple") as limpetd:
        yield limpetd


@pytest.fixture
def session(client, name):
    with client.open(name, build="allow") as session:
        yield session


def test_a_source_distribution_is_built_and_told(session, index):
    index.add_source("made", code="6 * 7")
    installed = session.install(["made", "good"])
    assert installed.packages == {"good": "1.0", "made": "1.0"}
    assert [line.endswith(" # built") for line in installed.lock.splitlines()] == [False, True]
    assert value(session, "import made; made.seen") == "42"
    index.add("later")
    again = session.install(["later"]).lock.splitlines()
    assert [line.split("==")[0] for line in again if line.endswith(" # built")] == ["made"]


def test_without_the_option_it_is_named(client, name, index):
    index.add_source("refused")
    with client.open(name) as session:
        message = fails(session, "refused").message
        assert "'refused' has no wheel" in message and "build=allow" in message
        assert session.exec("python3 -c 'import refused'").exit_code == 1


def test_who_does_not_allow_it_does_not_get_what_another_has_built(client, name, session, index):
    index.add_source("apart")
    session.install(["apart"])
    with client.open(f"{name}-2") as other:
        fails(other, "apart")
    with client.open(f"{name}-3", build="allow", packages=["apart"]) as third:
        assert value(third, "import apart; str(apart.seen)") == "'None'"


def test_a_wheel_is_taken_where_there_is_one(session, index):
    index.add("both")
    index.add_source("both", "2.0", code="1 / 0")
    assert session.install(["both"]).packages == {"both": "1.0"}


def test_a_build_that_fails(session, index):
    index.add_source("broken", code="1 / 0")
    error = fails(session, "broken")
    assert error.message == "'broken' could not be built from source; the log has what its build wrote"
    assert "ZeroDivisionError" in error.log
    assert value(session, "1 + 1") == "2"


def test_a_build_sees_nothing_of_the_session_and_reaches_the_index_alone(client, name, index, limpetd):
    if not limpetd.isolates:
        pytest.skip("nothing is isolated")
    with indexes.serving() as other:
        reach = "(lambda: urllib.request.urlopen(%r).status)()"
        index.add_source("looks", code="sorted(os.environ), os.getuid(), os.path.exists('/session/mine')")
        index.add_source("reaches", code=reach % f"{index.url}/simple/good/")
        index.add_source("calls", code=reach % f"{other.url}/simple/pip/")
        with client.open(name, build="allow", env={"SECRET": "key"}) as session:
            session.files.write("mine", b"")
            session.install(["looks", "reaches"])
            assert value(session, "import looks; 'SECRET' in looks.seen[0], looks.seen[1] > 0, looks.seen[2]") == "(False, True, False)"
            assert value(session, "import reaches; reaches.seen") == "200"
            assert "403" in fails(session, "calls").log
        assert other.requests == []


def test_a_build_has_the_time_of_its_install(session, index):
    index.add_source("endless", code="__import__('time').sleep(1000)")
    assert fails(session, "endless", timeout=3).message.startswith("the packages were not installed within 3")
