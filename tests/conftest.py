"""For the tests of all folders."""

import os
from pathlib import Path

# Whoever forgets to name a controller is not to start, or use, one that is installed on the machine.
os.environ.setdefault("LIMPET_AUTOSTART", "0")
os.environ.setdefault("LIMPET_SOCKET", "/nonexistent/limpet.sock")

SUITE = os.environ.get("PYTEST_NAME")
FAILED = Path(__file__).parent.parent / "build/test-results" / f"{SUITE}.failed"


def pytest_configure(config):
    """That the engine `local` isolates nothing is known here. Not in pytest.ini, which is read before limpet is found."""
    config.addinivalue_line("filterwarnings", "ignore::limpet.LimpetWarning")


def pytest_make_parametrize_id(val, argname):
    """Names a long value by its size: the name of the test that runs is a variable of the environment, which is limited, and
    which sanitizers read from end to end each time."""
    return f"{argname}-of-{len(val)}" if isinstance(val, (str, bytes)) and len(val) > 100 else None


def pytest_collection_modifyitems(config, items):
    """LIMPET_TEST_ONLY is a file with the only tests to run, or the only files of tests, one a line."""
    if path := os.environ.get("LIMPET_TEST_ONLY"):
        only = set(Path(path).read_text(encoding="utf-8").splitlines())
        chosen = [item for item in items if {item.nodeid, item.nodeid.partition("::")[0]} & only]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen


def pytest_runtest_logreport(report):
    """Names the tests that failed for scripts/test, which runs them again."""
    if report.failed and SUITE and "PYTEST_XDIST_WORKER" not in os.environ:
        with FAILED.open("a", encoding="utf-8") as failed:
            failed.write(f"{report.nodeid}\n")
