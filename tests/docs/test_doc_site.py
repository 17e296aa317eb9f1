"""The site builds, without a broken link and without anything from another host."""

import subprocess

from tests.support import ROOT


def test_the_site_builds():
    done = subprocess.run([ROOT / "scripts/site"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Limpet" in (ROOT / "build/site/index.html").read_text()
