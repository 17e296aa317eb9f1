"""Gives a session the variables that another one had."""

import importlib.metadata
import json
import os
import pickle
import pickletools
import platform
import sys

import _limpet
import limpet_saving
from limpet_saving import FORMAT, INDEX, PICKLES, checksum, found, why

PACKAGES = 12  # that are named of those that differ
PARTS = {"variables": list, "python": str, "packages": dict, "used": list, "cwd": str, "path": list, "skipped": list}
PLACE = ("start", "size", "crc32", "first")


class NotLoaded(Exception):
    """No variable is; the message says why."""


class Changed(Exception):
    """Its bytes are not those that were saved."""


class Gone(Exception):
    """It shares something with a variable that could not be restored."""


class Slow(pickle._Unpickler):
    """Goes on behind a pickle that failed: what that was to remember is missing, and said to be."""

    def load(self):
        try:
            return super().load()
        except pickle.UnpicklingError as error:
            raise Gone if "Memo value not found" in str(error) else error from None


class Reader:
    """The pickles, in their order: each may need what an earlier one had."""

    def __init__(self, file, rows):
        self.file = file
        self.firsts = [row["first"] for row in rows]
        self.unpickler = pickle.Unpickler(file)
        self.known = None  # what is remembered, once a pickle has failed

    def read(self, place, row):
        """The value of the next pickle. What fails leaves a gap in what is remembered."""
        try:
            if checksum(self.file, row["start"], row["size"]) != row["crc32"]:
                raise Changed
            if self.known is None:
                return self.unpickler.load()[0]
            self.file.seek(row["start"])
            slow = Slow(self.file)
            slow.memo = self.known
            return slow.load()[0]
        except BaseException:
            self.forget(place)
            raise

    def forget(self, place):
        first, following = (self.firsts[place : place + 2] + [self.firsts[place]])[:2]
        remembered = self.unpickler.memo.copy() if self.known is None else self.known
        self.known = {
            key: value for key, value in remembered.items() if not isinstance(key, int) or key < first
        }
        self.known.update((("gap", key), None) for key in range(first, following))


def check_room(needed):
    """Objects take at least what their pickles do, but for text and small numbers."""
    most = _limpet.memory()
    if most and needed > most:
        raise NotLoaded(
            f"the variables take {needed >> 20} MiB, and a session of this `memory` holds {most >> 20} MiB: open it with more"
        )


def variables(directory, index):
    """Sets them; notes of those that are not there."""
    namespace = sys.modules["__main__"].__dict__
    notes = []
    rows = [row for row in index["variables"] if "why" not in row]
    failed = {}
    check_room(sum(row["size"] for row in rows))
    with open(os.path.join(directory, PICKLES), "rb") as file:
        reader = Reader(file, rows)
        for place, row in enumerate(rows):
            try:
                namespace[row["name"]] = reader.read(place, row)
            except Changed:
                failed[row["name"]] = "it is damaged: what was saved of it has changed since"
            except Gone:
                failed[row["name"]] = "it shares something with one that could not be restored"
            except BaseException as error:
                failed[row["name"]] = why(error)
    for row in index["variables"]:
        if "why" in row:
            notes.append(f"{row['name']}: it was not saved: {row['why']}")
        elif row["name"] in failed:
            notes.append(f"{row['name']}: {failed[row['name']]}")
    return notes


def installed(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def differences(index):
    """Notes of what was in use then and is another now."""
    notes = []
    if index["python"] != platform.python_version():
        notes.append(f"Python: it was {index['python']}, and is {platform.python_version()} here")
    differing = []
    for name in index["used"]:
        then, now = index["packages"][name], installed(name)
        if now is None:
            differing.append(f"package {name}: it was {then}, and is not installed here")
        elif now != then:
            differing.append(f"package {name}: it was {then}, and is {now} here")
    if len(differing) > PACKAGES:
        differing[PACKAGES - 1 :] = [f"packages: {len(differing) - PACKAGES + 1} more differ"]
    return notes + differing


def go_there(index):
    """Where modules are imported from, and the current directory; notes of what is not there."""
    sys.path.extend(entry for entry in map(found, index["path"]) if entry not in sys.path)
    try:
        os.chdir(found(index["cwd"]))
    except OSError as error:
        return [f"current directory {index['cwd']}: {error.strerror}"]
    return []


def read_index(directory):
    with open(os.path.join(directory, INDEX), encoding="ascii") as file:
        index = json.load(file)
    if index["format"] == FORMAT:
        os.stat(os.path.join(directory, PICKLES))
        for part, kind in PARTS.items():
            if not isinstance(index[part], kind):
                raise TypeError(f"'{part}' is of another type")
        for row in index["variables"]:
            if not (isinstance(row["name"], str) and ("why" in row or all(isinstance(row[each], int) for each in PLACE))):
                raise TypeError("a variable has no place")
    return index


def load(directory):
    """Notes of what is not as it was."""
    limpet_saving.top = os.path.dirname(directory)
    try:
        index = read_index(directory)
    except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise NotLoaded(f"what was saved is damaged ({why(error)})") from None
    if index["format"] != FORMAT:
        return [f"all variables: they were saved in the format {index['format']}, and this is {FORMAT}"]
    notes = go_there(index) + variables(directory, index) + differences(index)
    return notes + [f"{note} is not saved" for note in index["skipped"]]
