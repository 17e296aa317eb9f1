"""The variables of a session in a directory, from which another one gets them.

    variables        one pickle for each variable, all by one pickler: what they share is shared again
    variables.json   what is in it with its checksums, what is not and why, and what it was made with

pickling.py writes both, in a copy of the process that saving.py makes and watches; loading.py reads them.
"""

import os
import zlib

FORMAT = 1
PICKLES = "variables"
INDEX = "variables.json"


SESSION = "/session"  # what everything that leaves the sandbox calls the session's directory
top = SESSION  # where that is


def told(path):
    """A path as another sandbox understands it."""
    path = os.path.abspath(os.fsdecode(path))
    return SESSION + path[len(top) :] if path == top or path.startswith(f"{top}/") else path


def found(path):
    """Where that is here."""
    return top + path[len(SESSION) :] if path == SESSION or path.startswith(f"{SESSION}/") else path


def checksum(file, start, size):
    """Of bytes of an open file, whose position stays; of fewer where it ends before."""
    found, end = 0, start + size
    while data := os.pread(file.fileno(), min(1 << 20, end - start), start):
        found, start = zlib.crc32(data, found), start + len(data)
    return found


def why(error):
    """An exception in one line, whatever its own methods do."""
    try:
        text = " ".join(str(error).split())
    except BaseException:
        text = ""
    name = type(error).__name__
    return f"{name}: {text}" if text else name
