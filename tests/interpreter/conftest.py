import pytest
from harness import BUILD, Interpreter


def pytest_sessionstart(session):
    if not (BUILD / "limpet-interpreter").exists():
        pytest.exit(f"{BUILD}/limpet-interpreter is not built; set LIMPET_BUILD", returncode=2)


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
