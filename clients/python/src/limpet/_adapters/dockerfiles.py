"""Images made of a Dockerfile, by the ``docker`` command, for the engine ``docker``."""

from __future__ import annotations

import hashlib
import os
import subprocess

from .. import ImageMissing


def build(dockerfile: str) -> str:
    """Builds the image ``limpet:NAME`` in the directory of the file, and returns NAME.

    Raises:
        FileNotFoundError: There is no such file.
        ImageMissing: It could not be built; the message has docker's reason.
    """
    path = os.path.abspath(dockerfile)
    with open(path, "rb") as file:
        name = f"dockerfile-{hashlib.sha256(path.encode() + file.read()).hexdigest()[:12]}"
    _docker("build", "--tag", f"limpet:{name}", "--file", path, os.path.dirname(path))
    return name


def remove(name: str) -> None:
    """Removes such an image, as far as nothing uses it."""
    subprocess.run(["docker", "image", "rm", f"limpet:{name}"], capture_output=True, check=False)


def _docker(*arguments: str) -> None:
    try:
        ended = subprocess.run(
            ["docker", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as missing:
        raise ImageMissing(
            "a Dockerfile is built by the command docker, which is not here; build the image elsewhere, or with "
            "'limpet image build --packages FILE --pip FILE --name NAME', and give image=NAME"
        ) from missing
    if ended.returncode:
        raise ImageMissing(f"docker {arguments[0]} failed: {ended.stderr.strip()[-2000:]}")
