"""Each picture in docs/images is made by scripts/screenshots and shown in a document."""

import re

from tests.docs.documents import PATHS, ROOT

IMAGES = ROOT / "docs/images"
SHOWN = re.compile(r"!\[[^\]]+\]\([./]*(?:docs/)?images/(\w+)\.png\)")
PICTURE = re.compile(r"^def (\w+)\((?:lab|http), page\):", re.M)
MAKERS = [ROOT / "tests" / folder / "screenshots.py" for folder in ("browser", "web")]


def test_each_is_made_and_shown():
    made = [name for maker in MAKERS for name in PICTURE.findall(maker.read_text())]
    shown = [name for path in PATHS for name in SHOWN.findall(path.read_text())]
    assert sorted(made) == sorted(file.stem for file in IMAGES.iterdir()) == sorted(shown)
