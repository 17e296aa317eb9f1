"""What to do about an error that the sandbox explains: a package that is not there, or a network."""

import os
import sys

# Of `limpet image build --with data`, by the names of their modules.
DATA = ("altair", "duckdb", "polars", "pptx", "reportlab")
# Packages that are called otherwise than their modules.
PACKAGES = {
    "Crypto": "pycryptodome",
    "cv2": "opencv-python-headless",
    "dotenv": "python-dotenv",
    "fitz": "pymupdf",
    "git": "GitPython",
    "jwt": "PyJWT",
    "magic": "python-magic",
    "pptx": "python-pptx",
    "skimage": "scikit-image",
}


def causes(error):
    """The error, and what it came of."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def missing(error):
    """The module that there is none of, as the error or what it came of says; None: that is not why."""
    if not isinstance(error, ImportError):
        return None
    for each in causes(error):
        if isinstance(each, ModuleNotFoundError) and isinstance(each.name, str) and each.name.isidentifier():
            return each.name
    return None


def is_cut_off(error):
    """Whether a name of the network was looked up where there is none."""
    looked_up = any((type(each).__module__, type(each).__name__) == ("socket", "gaierror") for each in causes(error))
    if not looked_up or "http_proxy" in os.environ:
        return False
    try:
        with open("/proc/net/dev", encoding="ascii") as file:
            interfaces = file.read().splitlines()[2:]
    except OSError:
        return False
    return all(line.strip().startswith("lo:") for line in interfaces)


def on(error):
    """A sentence, or None where there is nothing to do."""
    if is_cut_off(error):
        return "This session has no network: open one with network={'allow': ['HOST']}, or put the data into this one from outside."
    name = missing(error)
    if name is None or name in sys.stdlib_module_names or name.startswith("limpet"):
        return None
    package = PACKAGES.get(name, name)
    if name in DATA:
        return f"{package} can be added: session.install([{package!r}]) for this session, `limpet image build --with data` for an image."
    if name in PACKAGES:
        return f"{package} can be added: session.install([{package!r}]) for this session."
    return f"If {name} is a package, it can be added: session.install([{name!r}]) for this session."
