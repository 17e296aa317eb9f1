"""What it costs to move files between this machine and a session."""
import os
import shutil
import subprocess
from contextlib import contextmanager

from figures import Row, at_most, seconds
from runner import Group

GROUP = Group("transfers", __doc__)
LARGE = 1 << 30
MANY = 10000
SMALL = 1000  # bytes of each of the many
PIECE = os.urandom(1 << 20)


def make_large(path, size):
    with open(path, "wb") as file:
        for _ in range(size // len(PIECE)):
            file.write(PIECE)


def make_many(top):
    for number in range(MANY):
        folder = top / str(number % 100)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / str(number)).write_bytes(PIECE[:SMALL])


@contextmanager
def empty(bench, name):
    """A directory that was not there before."""
    place = bench.scratch / name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    try:
        yield place
    finally:
        shutil.rmtree(place)


def copied(bench, source):
    """Seconds that cp needs. What it writes is a new file each time."""
    with empty(bench, "copied") as place:
        return seconds(subprocess.run, ["cp", source, place / "copy"], check=True)


def packed(bench, source):
    """Seconds that one tar and another behind a pipe need."""
    with empty(bench, "packed") as place:
        line = f"tar -C {source} -cf - . | tar -C {place} -xf -"
        return seconds(subprocess.run, line, shell=True, check=True)


def got(bench, session, path):
    with empty(bench, "got") as place:
        return seconds(session.get, path, place / "it")


def put(session, source, path):
    """Into a place where nothing is."""
    took = seconds(session.put, source, path)
    session.files.remove(path, recursive=True)
    return took


@GROUP.case(
    Row("transfers.put", "A file of 1 GB into a session, to `cp` of it.", at_most(1.3)),
    Row("transfers.get", "A file of 1 GB out of a session, to `cp` of it.", at_most(1.3)),
)
def large(bench):
    bench.leave_out_of_quick()
    pairs = {"transfers.put": [], "transfers.get": []}
    with empty(bench, "large") as place, bench.main.session("transfers", disk="4g") as session:
        make_large(place / "file", LARGE)
        copied(bench, place / "file")
        for _ in range(bench.costly_rounds):
            pairs["transfers.put"].append((put(session, place / "file", "file"), copied(bench, place / "file")))
            session.put(place / "file", "file")
            pairs["transfers.get"].append((got(bench, session, "file"), copied(bench, place / "file")))
            session.files.remove("file")
    return pairs


@GROUP.case(
    Row("transfers.put_many", "A directory of 10,000 files of 1 kB into a session, to one tar and another behind a pipe.", at_most(2)),
    Row("transfers.get_many", "A directory of 10,000 files of 1 kB out of a session, to the same.", at_most(2)),
)
def many(bench):
    pairs = {"transfers.put_many": [], "transfers.get_many": []}
    with empty(bench, "many") as place, bench.main.session("transfers") as session:
        make_many(place)
        for _ in range(bench.costly_rounds):
            pairs["transfers.put_many"].append((put(session, place, "many"), packed(bench, place)))
            session.put(place, "many")
            pairs["transfers.get_many"].append((got(bench, session, "many"), packed(bench, place)))
            session.files.remove("many", recursive=True)
    return pairs
