"""A real controller for tests of a terminal: started by the first command, as for everybody.

LIMPET_ENGINE chooses the engine, by default local; other LIMPET_* variables of limpetd reach it.
"""

import json
import os
import pathlib
import shutil
import subprocess

from tests.support.limpetd import make_directory

from .conftest import BUILD, Cli
from .terminal import Terminal


class Real(Cli):
    def __init__(self):
        super().__init__(pathlib.Path(make_directory()))
        state = self.directory / "state"
        del self.environment["LIMPET_AUTOSTART"]
        given = {name: value for name, value in os.environ.items() if name in ("LIMPET_IMAGE", "LIMPET_GUEST")}
        self.environment |= given | {
            "LIMPETD": str(BUILD / "limpetd"), "LIMPET_ENGINE": os.environ.get("LIMPET_ENGINE", "local"),
            "LIMPET_STATE_DIR": str(state), "LIMPET_RUNTIME_DIR": str(self.directory / "run"), "LIMPET_POOL": "0",
            "HOME": str(self.directory), "XDG_STATE_HOME": str(self.directory / "xdg"), "TERM": "xterm",
            "LANG": "C.UTF-8", "NO_COLOR": "1",
        }

    def good(self, *arguments, **options):
        """Standard output of a command that must work."""
        result = self(*arguments, **options)
        assert result.returncode == 0, result.err
        return result.out

    def sessions(self):
        return {row["session"]: row for row in json.loads(self.good("ls", "--json"))["sessions"]}

    def terminal(self, *arguments, **environment):
        return Terminal([self.program, *arguments], self.environment | environment, self.directory)

    def remove(self):
        self("shutdown", environment={"LIMPET_AUTOSTART": "0"})
        log = self.directory / "state/limpetd.log"
        said = log.read_text() if log.exists() else ""
        shutil.rmtree(self.directory, ignore_errors=True)  # the controller may still be removing its own
        assert "Sanitizer" not in said, said


def run(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=60, **options).stdout
