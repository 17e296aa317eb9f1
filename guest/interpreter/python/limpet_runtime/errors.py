"""Exceptions as text: what a user's code did, without the frames of the machinery around it."""

import errno
import linecache
import os
import sys

from limpet_runtime import library

OURS = (
    os.path.dirname((lambda: None).__code__.co_filename) + os.sep,  # also where there are no files of it
    os.path.join(sys.path[-1], "limpet_magics") + os.sep,
    os.path.join(sys.path[-1], "limpet_languages") + os.sep,
)
ASYNCIO = os.path.dirname(os.__file__) + "/asyncio/"
CELL = "<cell "

# Frames of one traceback that are looked at; of a deeper recursion only the innermost.
FRAMES_MAX = 3000

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

# Bytes; a disk with less counts as full.
LEAST_ROOM = 1 << 20

usual_hooks = (sys.excepthook, sys.__excepthook__)
traceback = None  # a copy of our own, from the first error on


def trim(stack):
    """Drops what led to the cell, and our own files wherever they are."""
    first = next((i for i, frame in enumerate(stack) if frame.filename.startswith(CELL)), 0)
    stack[:] = [frame for frame in stack[first:] if not frame.filename.startswith(OURS)]


def trim_all(report):
    """Trims a traceback, those of its causes and contexts, and those of the members of groups."""
    seen = set()
    reports = [report]
    while reports:
        one = reports.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        trim(one.stack)
        reports += [one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ())]


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
    """Whether a name or an address of the network was asked for where there is none."""
    asked = any(
        (type(each).__module__, type(each).__name__) == ("socket", "gaierror")
        or (isinstance(each, OSError) and each.errno == errno.ENETUNREACH)
        for each in causes(error)
    )
    if not asked or "http_proxy" in os.environ:
        return False
    try:
        with open("/proc/net/dev", encoding="ascii") as file:
            interfaces = file.read().splitlines()[2:]
    except OSError:
        return False
    return all(line.strip().startswith("lo:") for line in interfaces)


def about_files(error):
    """What to do where the sandbox takes no file, a sentence; None: it does, or it is no sandbox."""
    codes = {each.errno for each in causes(error) if isinstance(each, OSError)}
    if not codes & {errno.EROFS, errno.ENOSPC} or not os.path.isdir("/session"):
        return None
    if errno.EROFS in codes:
        return "Code can write to /session, /tmp and the home directory."
    disk = os.statvfs("/session")
    if disk.f_favail == 0:
        return "This session has as many files as it may: remove some, or open one with a larger files=."
    if disk.f_bavail * disk.f_frsize < LEAST_ROOM:
        return "The disk of this session is full: remove files, or open one with a larger disk=."
    return None


def advice(error):
    """What to do about an error that the sandbox explains, of its disk, its network or its packages: a sentence, or None."""
    if (said := about_files(error)) is not None:
        return said
    if isinstance(error, MemoryError):
        return "This session has no memory for that: work in smaller parts, or open one with a larger memory=."
    if is_cut_off(error):
        return "This session has no network: open one with network={'allow': ['HOST']}, or put the data into this one from outside."
    if isinstance(error, SyntaxError) and isinstance(error.text, str) and error.text.lstrip().startswith(("!", "%")):
        return "Commands of IPython are for notebooks: subprocess.run() runs a program, session.install() adds a package."
    name = missing(error)
    if name is None or name in sys.stdlib_module_names or name.startswith("limpet"):
        return None
    package = PACKAGES.get(name, name)
    if name in DATA:
        return f"{package} can be added: session.install([{package!r}]) for this session, `limpet image build --with data` for an image."
    if name in PACKAGES:
        return f"{package} can be added: session.install([{package!r}]) for this session."
    return f"If {name} is a package, it can be added: session.install([{name!r}]) for this session."


def complete_syntax_error(error):
    """Errors that the compiler finds after parsing come without their line, which only files have."""
    if error.text is None and isinstance(error.filename, str) and isinstance(error.lineno, int):
        error.text = linecache.getline(error.filename, error.lineno) or None


def load():
    global traceback
    with library.Library():
        traceback = library.private("traceback")
        import ast, tokenize, unicodedata  # noqa: E401, F401  which traceback imports when it first needs them


def format_full(error):
    if traceback is None:
        load()
    if isinstance(error, SyntaxError):
        complete_syntax_error(error)
    report = traceback.TracebackException(type(error), error, error.__traceback__, limit=-FRAMES_MAX)
    trim_all(report)
    todo = advice(error)
    return "".join(report.format()) + (f"{todo}\n" if todo else "")


def format_frame(filename, line, name):
    source = linecache.getline(filename, line).strip()
    return f'  File "{filename}", line {line}, in {name}\n' + (f"    {source}\n" if source else "")


def format_simple(error, name, message):
    """For exceptions that break the formatter, and processes that have no descriptor or memory left to import it."""
    frames = []
    tb = error.__traceback__
    while tb is not None:
        code = tb.tb_frame.f_code
        if not code.co_filename.startswith(OURS):
            frames.append(format_frame(code.co_filename, tb.tb_lineno, code.co_name))
        tb = tb.tb_next
    return "".join(["Traceback (most recent call last):\n", *frames[-FRAMES_MAX:], f"{name}: {message}\n"])


def text_of(error):
    try:
        return str(error)
    except Exception:
        return "<exception str() failed>"


def drop_ours(tb):
    """The traceback without the frames that led to the cell."""
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith((*OURS, ASYNCIO)):
        tb = tb.tb_next
    return tb


def clear_frames(tb):
    while tb is not None:
        try:
            tb.tb_frame.clear()
        except RuntimeError:
            pass  # of a generator that runs
        tb = tb.tb_next


def tell_hook(error):
    """Of an excepthook that a cell has chosen. The cell's record has the error all the same."""
    hook = sys.excepthook
    if hook in usual_hooks or not callable(hook) or isinstance(error, SystemExit):
        return
    try:
        hook(type(error), error, error.__traceback__)
    except BaseException as failure:
        print("Error in sys.excepthook:", describe(failure)[2], sep="\n", end="", file=sys.stderr)


class Foreign(Exception):
    """What a cell in another language ended with: name, message and traceback, as that language has them."""


def describe(error):
    """(name, message, traceback)"""
    if type(error) is Foreign:
        return error.args
    name = type(error).__name__
    message = text_of(error)
    try:
        with library.Library():
            text = format_full(error)
    except Exception:
        text = format_simple(error, name, message)
    return name, message, text


def keep(error):
    """The exception that a cell ended with is from now on the last one, for traceback.print_last() and pdb.pm(). What there
    was no memory for is let go."""
    if type(error) is Foreign:
        return
    error.__traceback__ = drop_ours(error.__traceback__)
    if isinstance(error, MemoryError):
        clear_frames(error.__traceback__)
    sys.last_exc = sys.last_value = error
    sys.last_type, sys.last_traceback = type(error), error.__traceback__
    tell_hook(error)
