"""scripts/screenshots makes every picture of the documents, small enough to be kept beside them."""

import subprocess

from PIL import Image

from tests.support import ROOT

from .screenshots import PICTURES

LARGEST = 150_000  # bytes


def test_pictures_are_made(tmp_path):
    done = subprocess.run([ROOT / "scripts/screenshots", "--into", tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {file.stem for file in tmp_path.iterdir()} == set(PICTURES)
    for file in tmp_path.iterdir():
        with Image.open(file) as picture:
            assert picture.width > 600 and len(picture.getcolors(picture.width * picture.height)) > 100, file.name
        assert file.stat().st_size <= LARGEST


def test_a_picture_that_is_not_there(tmp_path):
    done = subprocess.run([ROOT / "scripts/screenshots", "sunset"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "there is no sunset, but jupyterlab, widgets, history" in done.stderr
