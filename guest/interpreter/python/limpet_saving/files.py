"""Open files: by path and position, where a file of that name can be opened again."""

import io
import os

from limpet_saving import found, told

READERS = (io.TextIOWrapper, io.BufferedReader, io.FileIO)
KINDS = (*READERS, io.BufferedWriter, io.BufferedRandom)


class NotSaved(Exception):
    """Something that a pickle cannot bring back; the message says why."""


def written_out(variables):
    """Writes out what these files hold back, so that a copy of the process has nothing left to write. Their ids."""
    flushed = set()
    for file in variables:
        if type(file) in KINDS and not file.closed and file.writable():
            file.flush()
            flushed.add(id(file))
    return flushed


def position(file, flushed):
    if not file.writable():
        return file.tell()
    if id(file) not in flushed:
        raise NotSaved("it is open for writing, and no variable of its own")
    return os.lseek(file.fileno(), 0, os.SEEK_CUR)


def reduced(file, flushed):
    """What makes the file anew, as __reduce__ says it."""
    path = file.name
    if not isinstance(path, (str, bytes)) or not os.path.isfile(path):
        raise NotSaved("it is a file without a name by which it could be opened again")
    if file.closed:
        return closed, (told(path), isinstance(file, io.TextIOWrapper))
    mode = file.mode if isinstance(file.mode, str) else "rb"
    mode = mode.replace("w", "r+").replace("x", "r+") if "+" not in mode else mode.replace("w", "r").replace("x", "r")
    text = (file.encoding, file.errors) if isinstance(file, io.TextIOWrapper) else ()
    if text:
        mode = mode.replace("b", "")
    raw = isinstance(file, io.FileIO)
    return reopened, (told(path), mode, position(file, flushed), raw, *text)


def closed(path, is_text):
    file = open(found(path), "r" if is_text else "rb")
    file.close()
    return file


def reopened(path, mode, offset, raw, encoding=None, errors=None):
    """As it was: nothing in it is cut off."""
    file = open(found(path), mode, 0 if raw else -1, encoding, errors)
    if "a" not in mode:
        file.seek(offset)
    return file
