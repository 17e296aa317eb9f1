"""The site builds, without a broken link and without anything from another host, and has all of the Python client."""

import re
import subprocess

import limpet
import pytest
from tests.docs.documents import ROOT
from tests.support.needs import WITHOUT


@pytest.mark.skipif("network" in WITHOUT, reason="without network, from where the generator comes")
def test_the_site_builds():
    done = subprocess.run([ROOT / "scripts/site"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Limpet" in (ROOT / "build/site/index.html").read_text()


def test_the_reference_has_every_name_of_the_client():
    pages = "".join(path.read_text() for path in (ROOT / "docs/reference/python").glob("*.md"))
    shown = set(re.findall(r"^::: limpet\.(\w+)$", pages, re.M)) - {"errors", "open", "run"}
    public = {name for name in limpet.__all__ if not name.startswith(("Async", "_")) and not hasattr(limpet.errors, name)}
    assert shown == public
