"""save() and open(restore=) with live memory: what pickles cannot bring back, and when it comes."""

import os

import pytest

from tests.python.test_archive import seal

from .test_saving import path, restored  # noqa: F401
from .test_sleep import EVERYTHING, IS_THERE

pytestmark = pytest.mark.engine


@pytest.fixture
def kept(limpetd, session, path):
    if not limpetd.isolates:
        pytest.skip("the engine local keeps no memory in a file")
    session.run(EVERYTHING).check()
    return session.save(path)


@pytest.mark.docker
def test_it_comes_back_with_everything_as_often_as_one_likes(kept, session, path, restored):
    assert 0 < kept.memory < kept.size == os.path.getsize(path)
    assert {"squares", "database", "lock"} <= set(kept.lost)
    for _ in range(2):
        back = restored()
        assert (back.restored_memory, back.restored) == (True, [])
        result = back.run(IS_THERE)
        assert (result.result, result.state, result.restored) == ("(1, (41,), True, '456789')", "kept", [])
        assert (result.execution_count, result.epoch) == (2, 1)
    assert session.run(IS_THERE).result == "(1, (41,), True, '456789')"
    assert session.files.list("/session") == [entry for entry in session.files.list("/session") if "saved" not in entry.name]


def test_copies_draw_other_random_numbers(limpetd, client, name, path, restored):
    """Also where there are no checkpoints otherwise."""
    if not limpetd.isolates:
        pytest.skip("the engine local keeps no memory in a file")
    with client.open(name, checkpoint="off") as session:
        session.run("import random").check()
        assert session.save(path).memory > 0
        backs = [restored(), restored()]
        assert [back.restored_memory for back in backs] == [True, True]
        assert len({each.run("random.random()").result for each in (session, *backs)}) == 3


def test_it_is_protected_like_a_call(kept, restored):
    back = restored()
    result = back.run("import os; os._exit(1)")
    assert (result.state, result.rolled_back_to.execution_count) == ("rolled_back", 1)
    assert back.run(IS_THERE).result == "(1, (41,), True, '456789')"


def test_where_it_does_not_fit_the_reason_is_told(kept, path, restored):
    """A mark that no format has."""
    with open(path, "rb") as file:
        data = file.read()[:-2048]
    at = data.index(b"limpet memory")
    seal(path, data[:at] + b"other" + data[at + 5 :])
    back = restored()
    assert back.restored_memory is False
    assert "the memory was not taken: it is not whole" in back.restored
    assert any(note.startswith("squares: ") for note in back.restored)
    assert back.run("file.read()").result == "'456789'"


def test_an_environment_of_its_own_comes_without_it(kept, restored):
    back = restored(env={"COLOUR": "red"})
    assert back.restored_memory is False
    assert back.run("import os; os.environ['COLOUR']").result == "'red'"
