"""What to do where an import fails because a package is not there."""

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


def missing(error):
    """The module that there is none of, as the error or what it came of says; None: that is not why."""
    seen = set()
    if not isinstance(error, ImportError):
        return None
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, ModuleNotFoundError) and isinstance(error.name, str) and error.name.isidentifier():
            return error.name
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return None


def advice(error):
    """A sentence, or None where there is nothing to do."""
    name = missing(error)
    if name is None or name in sys.stdlib_module_names or name.startswith("limpet"):
        return None
    package = PACKAGES.get(name, name)
    if name in DATA:
        return f"{package} can be added: session.install({package!r}) for this session, `limpet image build --with data` for an image."
    if name in PACKAGES:
        return f"{package} can be added: session.install({package!r}) for this session."
    return f"If {name} is a package, it can be added: session.install({name!r}) for this session."
