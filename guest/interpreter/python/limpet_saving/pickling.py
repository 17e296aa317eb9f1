"""Writes the variables, in a process that is lost should one of them end it."""

import errno
import importlib.metadata
import io
import itertools
import json
import os
import pickletools
import platform
import stat
import sys
import types

try:
    from cloudpickle import cloudpickle_fast as cloud  # before 3.0
except ImportError:
    from cloudpickle import cloudpickle as cloud

from limpet_saving import FORMAT, INDEX, PICKLES, SESSION, checksum, files, told, why

PROTOCOL = 5
SKIPPED = 32  # files that are named
TYPE_NAME = type.__dict__["__name__"].__get__  # past what a metaclass may say
NO_ROOM = "there is no room for it on the disk of the session"


class Full(Exception):
    """There is no room for a variable, and none is to be left out for that."""


def function(code, name, defaults, closure):
    """A function of the cells: its globals are those of whoever loads it."""
    return types.FunctionType(code, sys.modules["__main__"].__dict__, name, defaults, closure)


class Pickler(cloud.CloudPickler):
    """Functions of the cells come without what they refer to by name: those are variables themselves."""

    def __init__(self, file, namespace, flushed):
        super().__init__(file, PROTOCOL)
        self.namespace = namespace
        self.flushed = flushed

    def reducer_override(self, obj):
        if type(obj) in files.KINDS:
            return files.reduced(obj, self.flushed)
        return super().reducer_override(obj)

    def _dynamic_function_reduce(self, func):
        reduced = super()._dynamic_function_reduce(func)
        if func.__globals__ is not self.namespace:
            return reduced
        _, (code, _, name, defaults, closure), (state, slots), *rest = reduced
        return function, (code, name, defaults, closure), (state, {**slots, "__globals__": {}}), *rest


class Writer:
    """The pickles of some variables, one behind the other."""

    def __init__(self, path, namespace, flushed):
        self.file = open(path, "w+b", buffering=1 << 20)
        self.pickler = Pickler(self.file, namespace, flushed)

    def add(self, value):
        """Where its pickle is, and what is the first thing that the pickler remembers of it. Where there is an
        exception, nothing of it is in the file."""
        start = self.file.tell()
        holder = [value]
        try:
            self.pickler.dump(holder)
            self.file.flush()
        except BaseException:
            self.forget(start, holder)
            raise
        end = self.file.tell()
        return {
            "start": start, "size": end - start, "crc32": checksum(self.file, start, end - start),
            "first": self.place(holder, end),
        }  # fmt: skip

    def place(self, holder, end):
        """What a pickle says that has nothing but what is remembered already."""
        self.pickler.dump(holder)
        self.file.seek(end)
        opcodes = list(pickletools.genops(self.file.read()))
        self.file.seek(end)
        self.file.truncate(end)
        return next(argument for opcode, argument, _ in opcodes if opcode.name in ("BINGET", "LONG_BINGET"))

    def forget(self, start, holder):
        remembered = self.pickler.memo.copy()
        if id(holder) in remembered:
            first = remembered[id(holder)][0]
            self.pickler.memo = {key: entry for key, entry in remembered.items() if entry[0] < first}
        try:
            self.file.seek(start)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            self.drop_buffer(start)
        self.file.truncate(start)

    def drop_buffer(self, start):
        """What there was no room for."""
        raw = self.file.detach()
        os.ftruncate(raw.fileno(), start)
        raw.seek(start)
        remembered = self.pickler.memo.copy()
        self.file = io.BufferedRandom(raw, 1 << 20)
        self.pickler = Pickler(self.file, self.pickler.namespace, self.pickler.flushed)
        self.pickler.memo = remembered


def lacks_room(error):
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def reason(error):
    if isinstance(error, files.NotSaved):
        return str(error)
    if lacks_room(error):
        return NO_ROOM
    return why(error)


def distributions():
    """Versions of what is installed, and the names of those that are in use."""
    versions = {}
    for found in importlib.metadata.distributions():
        name = found.metadata["Name"]
        if name:
            versions.setdefault(name, found.version)
    modules = {name.partition(".")[0] for name in list(sys.modules)}
    packages = importlib.metadata.packages_distributions()
    used = {name for module in modules for name in packages.get(module, ())}
    return versions, sorted(used & versions.keys())


def requirements():
    """The lock that an installer has left: versions of what the session has installed, and hashes of the files."""
    try:
        with open(os.path.join(os.environ["PYTHONUSERBASE"], "share", "limpet", "packages.lock"), encoding="ascii") as file:
            return file.read().splitlines()
    except (KeyError, OSError, UnicodeDecodeError):
        return []


def paths(top, hidden):
    """Of all that is in a directory and no directory. What `hidden` begins the name of is left out at the top."""
    for above, directories, others in os.walk(top):
        if above == top:
            directories[:] = [name for name in directories if not name.startswith(hidden)]
            others = [name for name in others if not name.startswith(hidden)]
        for name in others:
            yield os.path.join(above, name)


def kind(path):
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except OSError:
        return None


def elsewhere(top):
    """Directories of a sandbox that its code writes to beside the session's; without a sandbox they are others'."""
    if top != SESSION:
        return []
    return [path for path in ("/tmp", os.path.expanduser("~")) if os.path.commonpath((path, top)) != top]


def skipped(top, stays):
    """What is not saved: of the session's directory what is no file, directory or link, and, unless the rest of the
    disk stays with it, what is not in it."""
    names = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
    special = (f"{told(path)}: {names[found]}" for path in paths(top, ".limpet") if (found := kind(path)) in names)
    outside = (
        f"{path}: a file outside {SESSION}"
        for other in ([] if stays else elsewhere(top))
        for path in paths(other, ".")
        if kind(path) == stat.S_IFREG
    )
    return list(itertools.islice(itertools.chain(special, outside), SKIPPED))


def circumstances(top, stays):
    versions, used = distributions()
    return {
        "python": platform.python_version(),
        "packages": versions,
        "used": used,
        "requirements": requirements(),
        "cwd": told("."),
        "path": [told(entry) for entry in sys.path if isinstance(entry, str) and entry],
        "skipped": skipped(top, stays),
    }


def write(directory, names, namespace, left_out, flushed, whole, stays, begins):
    """`left_out`: why, of names that are not tried. `begins` is told of the place of each that is. Full is raised where
    the `whole` is wanted, and finds no room. `stays`: the session goes on with its disk."""
    writer = Writer(os.path.join(directory, PICKLES), namespace, flushed)
    rows = []
    for place, name in enumerate(names):
        row = {"name": name, "type": TYPE_NAME(type(namespace[name]))}
        if name in left_out:
            row["why"] = left_out[name]
        else:
            begins(place)
            try:
                row.update(writer.add(namespace[name]))
            except BaseException as error:
                if whole and lacks_room(error):
                    raise Full from error
                row["why"] = reason(error)
        rows.append(row)
    begins(len(names))
    writer.file.close()
    index = {"format": FORMAT, "variables": rows, **circumstances(os.path.dirname(directory), stays)}
    with open(os.path.join(directory, INDEX), "w", encoding="ascii") as file:
        json.dump(index, file)
