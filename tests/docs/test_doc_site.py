"""The site builds, without a broken link and without anything from another host."""

import subprocess

import pytest

from tests.docs.documents import ROOT
from tests.support.needs import WITHOUT


@pytest.mark.skipif("network" in WITHOUT, reason="without network, from where the generator comes")
def test_the_site_builds():
    done = subprocess.run([ROOT / "scripts/site"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Limpet" in (ROOT / "build/site/index.html").read_text()
