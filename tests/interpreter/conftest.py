import pytest

from .harness import BUILD, Interpreter, subreaper


def pytest_sessionstart(session):
    if not (BUILD / "limpet-interpreter").exists():
        pytest.exit(f"{BUILD}/limpet-interpreter is not built; set LIMPET_BUILD", returncode=2)


@pytest.fixture(scope="module", autouse=True)
def adopting():
    """Tests of other folders leave orphans to process 1, as everybody does."""
    with subreaper():
        yield


@pytest.fixture
def session(tmp_path):
    interpreter = Interpreter(tmp_path)
    yield interpreter
    interpreter.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """For tests that leave nothing behind that others could notice."""
    interpreter = Interpreter(tmp_path_factory.mktemp("session"))
    yield interpreter
    interpreter.close()
