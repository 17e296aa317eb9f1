"""For the tests of all folders."""

import os

# Whoever forgets to name a controller is not to start, or use, one that is installed on the machine.
os.environ.setdefault("LIMPET_AUTOSTART", "0")
os.environ.setdefault("LIMPET_SOCKET", "/nonexistent/limpet.sock")


def pytest_configure(config):
    """That the engine `local` isolates nothing is known here. Not in pytest.ini, which is read before limpet is found."""
    config.addinivalue_line("filterwarnings", "ignore::limpet.LimpetWarning")
