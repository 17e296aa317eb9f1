"""Whole sessions, on each engine of LIMPET_TEST_ENGINES."""

from tests.support.controllers import client, limpetd, name, own_limpetd, quiet, session  # noqa: F401
