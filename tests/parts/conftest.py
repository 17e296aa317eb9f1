"""Sessions with what `limpet image build --with` adds: LIMPET_IMAGE names the image."""

from tests.support.controllers import client, limpetd, name, own_limpetd, quiet, session  # noqa: F401
from tests.support.langgraph import call, sandbox  # noqa: F401
