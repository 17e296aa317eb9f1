"""The example of the browser as a user starts it."""

import os
import subprocess
import sys

from tests.support import ROOT


def test_browser(limpetd):
    environment = os.environ | {
        "LIMPET_SOCKET": limpetd.socket, "LIMPET_AUTOSTART": "0",
        "PYTHONPATH": os.path.join(ROOT, "clients", "python", "src"),
    }  # fmt: skip
    program = [sys.executable, os.path.join(ROOT, "examples", "browser.py"), os.environ["LIMPET_IMAGE"]]
    ended = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[0] == "the page says: 'tea, coming up'"
    assert lines[1].startswith("picture: /session/artifacts/screenshot.png of ")
    assert lines[2] == "exited, rolled_back; the browser: its pages are left as they are"
    assert lines[3] == "it still says: 'tea, coming up'"
