"""For the tests of all folders."""


def pytest_configure(config):
    """That the engine `local` isolates nothing is known here. Not in pytest.ini, which is read before limpet is found."""
    config.addinivalue_line("filterwarnings", "ignore::limpet.LimpetWarning")
