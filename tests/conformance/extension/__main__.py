"""``limpet serve``, whose MCP servers have the extension."""

import sys
from unittest import mock

from limpet.serve._main import run
from limpet.serve._mcp import _owners

from . import make

if __name__ == "__main__":
    with mock.patch.object(_owners, "make", make):
        sys.exit(run(sys.argv[1:]))
