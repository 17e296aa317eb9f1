"""Each picture in docs/images is made by a script and shown in a document."""

import re
import subprocess
import sys

import pytest
from tests.docs.conftest import engine
from tests.docs.documents import PATHS, ROOT

IMAGES = ROOT / "docs/images"
SHOWN = re.compile(r"!\[[^\]]+\]\([./]*(?:docs/)?images/(\w+)\.png\)")
PICTURE = re.compile(r"^def (\w+)\((?:lab|http), page\):", re.M)
MAKERS = [ROOT / "tests" / folder / "screenshots.py" for folder in ("browser", "web")]


def test_each_is_made_and_shown():
    made = [name for maker in MAKERS for name in PICTURE.findall(maker.read_text())]
    shown = [name for path in PATHS for name in SHOWN.findall(path.read_text())]
    assert sorted(made) == sorted(file.stem for file in IMAGES.glob("*.png")) == sorted(shown)


@pytest.mark.skipif(engine() == "local", reason="pandas is in the image")
def test_the_first_picture_shows_what_a_run_prints(place, tmp_path):
    subprocess.run([sys.executable, ROOT / "scripts/cast", tmp_path / "crash.svg"], check=True, env=place.environment)
    assert (tmp_path / "crash.svg").read_text() == (IMAGES / "crash.svg").read_text(), "run scripts/cast"
    assert "docs/images/crash.svg" in (ROOT / "README.md").read_text()
