"""Packages of a saved session: the same files come back, by their hashes, or it is said that they do not."""

import json
import warnings

import limpet
import pytest

from tests.support import index as indexes
from tests.support.controllers import ENGINES
from tests.support.limpetd import Limpetd

from .test_packages import value

pytestmark = [pytest.mark.engine, pytest.mark.long]


@pytest.fixture
def index():
    with indexes.serving() as index:
        index.add("greeting", requires=["tone"])
        index.add("tone")
        yield index


@pytest.fixture(params=ENGINES)
def client(request, index):
    controller = Limpetd(request.param)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            arguments = ("--package-index", f"{index.url}/simple", "--packages-age", "0", "--packages-size", "1")
            with controller.start(*arguments).client() as client:
                yield client
        assert controller.stop() == 0
    finally:
        controller.stop()
        controller.remove()


@pytest.fixture
def saved(client, name, tmp_path):
    """The path of a session that had installed packages, and its lock."""
    path = str(tmp_path / "conv.limpet")
    with client.open(name, packages=["tone"]) as session:
        lock = session.install(["greeting"]).lock
        session.run("import greeting; version = greeting.version").check()
        session.save(path)
    return path, lock


def test_what_was_installed_later_comes_back_too(client, name, saved, index):
    path, lock = saved
    index.add("greeting", "2.0", requires=["tone"])
    index.add("tone", "2.0")
    with client.open(name, restore=path) as session:
        assert value(session, "import tone; version, greeting.version, tone.version") == "('1.0', '1.0', '1.0')"
        assert session.restored == []
        assert session.options["packages"] == lock.splitlines()
        assert session.install(["tone"]).lock == lock


def test_other_files_of_the_same_version_are_not_taken(client, name, saved, index):
    path, _ = saved
    index.add("greeting", files={"greeting/__init__.py": "version = 'another'\n"}, requires=["tone"])
    with pytest.raises(limpet.RestoreFailed, match="cannot be installed as they were: a file of the index does not have the hash"):
        client.open(name, restore=path)
    assert not {row.session: row.status for row in client.sessions() if row.status != "closing"}.get(name)
    with client.open(name, restore=path, packages=["greeting"]) as session:
        assert value(session, "version, greeting.version") == "('1.0', 'another')"


def test_without_them(client, name, saved):
    path, _ = saved
    with client.open(name, restore=path, packages=[]) as session:
        assert value(session, "version") == "'1.0'"
        assert [note for note in session.restored if "greeting" in note]


def test_what_was_built_needs_the_option_again(client, name, index, tmp_path):
    path = str(tmp_path / "built.limpet")
    index.add_source("made", code="6 * 7")
    with client.open(name, build="allow", packages=["made"]) as session:
        session.save(path)
    with pytest.raises(limpet.RestoreFailed, match="build=allow"):
        client.open(name, restore=path)
    with client.open(name, restore=path, build="allow") as session:
        assert value(session, "import made; made.seen") == "42"


def test_an_export_has_them(client, name, tmp_path):
    with client.open(name) as session:
        lock = session.install(["greeting"]).lock
        made = session.export(tmp_path / "report")
    with open(made["lock"]) as file:
        assert json.load(file)["requirements"] == lock.splitlines()
