"""Saves the variables, without touching them: a copy of this process pickles, and may come to harm."""

import collections
import gc
import os
import select
import shutil
import signal
import sys
import time
import warnings

import _limpet
import limpet_saving
from limpet_saving import files, pickling

EACH = 20.0  # seconds for a variable
ALL = 240.0  # and for all of them, those included that were tried in vain
PLACE = 4  # bytes by which the copy says which variable is next
OLD = 3600.0  # after so many seconds nobody wants what was left behind any more
LEFT_BEHIND = ".limpet-saved-"
FULL = 2  # exit code of the copy: there is no room for a variable
CRASHES = 3  # in one place, before they are held against it


class Crashed(str):
    """How a process ended that may fare better another time."""


class Unwanted(Exception):
    """Something else is to be done."""


def names_of(namespace):
    return [
        name
        for name in list(namespace)
        if type(name) is str and not (name.startswith("__") and name.endswith("__"))
    ]


def clear(directory, adds):
    """Makes it anew, and takes away what others left beside it. One that has something already stays."""
    above = os.path.dirname(directory)
    for name in os.listdir(above):
        path = os.path.join(above, name)
        if name.startswith(LEFT_BEHIND) and time.time() - os.lstat(path).st_mtime > OLD:
            shutil.rmtree(path, ignore_errors=True)
    if not adds:
        shutil.rmtree(directory, ignore_errors=True)
        os.mkdir(directory, 0o700)


def copy_main(tell, *work):
    """In the copy. Whatever memory there is too little of, the kernel is to take from here. No finalizer is to run: it
    would end what the session still has, and those of libraries with threads crash where their threads are not."""
    gc.disable()
    status = 1
    try:
        try:
            with open("/proc/self/oom_score_adj", "w") as file:
                file.write("1000")
        except OSError:
            pass
        pickling.write(*work, lambda place: os.write(tell, place.to_bytes(PLACE, "big")))
        status = 0
    except pickling.Full:
        status = FULL
    finally:
        os._exit(status)


def ended(pid):
    """How a process ended: None, or a phrase."""
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGKILL:
        return "its pickling was killed, as there was not enough memory for it"
    if code < 0:
        return Crashed(f"its pickling crashed ({signal.Signals(-code).name})")
    return {0: None, FULL: pickling.NO_ROOM}.get(code, "its pickling ended the process")


def killed(pid, why):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return why


def watch(pid, heard, end, channel):
    """The place of the variable that was under way, and how it ended; None when all is well."""
    place, poll = 0, select.poll()
    for file in (heard, channel):
        if file >= 0:
            poll.register(file, select.POLLIN)
    while True:
        ready = dict(poll.poll(1000 * max(0.0, min(EACH, end - time.monotonic()))))
        if not ready:
            return place, killed(pid, f"its pickling took longer than {EACH:.0f} seconds")
        if channel in ready:
            killed(pid, None)
            raise Unwanted("the session is in use again")
        data = os.read(heard, 4096)
        if not data:
            return place, ended(pid)
        place = int.from_bytes(data[-PLACE:], "big")


def attempt(end, channel, *work):
    heard, tell = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pid = _limpet.fork(tell)
    if pid == 0:
        os.close(heard)
        copy_main(tell, *work)
    os.close(tell)
    try:
        return watch(pid, heard, end, channel)
    finally:
        os.close(heard)


def save_all(directory, namespace, whole, stays, channel):
    names = names_of(namespace)
    flushed = files.written_out([namespace[name] for name in names])
    left_out, crashes = {}, collections.Counter()
    end = time.monotonic() + ALL
    while True:
        place, why = attempt(end, channel, directory, names, namespace, left_out, flushed, whole, stays)
        if why is None:
            return None
        crashes[place] += 1
        if isinstance(why, Crashed) and crashes[place] < CRASHES:  # perhaps of a library's thread without its connections
            continue
        if place >= len(names) or names[place] in left_out:
            return f"what was saved could not be written down: {why}"
        if whole:
            return f"{names[place]}: {why}"
        if time.monotonic() >= end:
            return f"the variables could not be pickled in {ALL:.0f} seconds; {names[place]!r} was under way"
        left_out[names[place]] = why


def save(directory, whole, channel):
    """Why it could not be done, or None. A variable that cannot be saved is no reason, unless all is to be saved that
    can be (`whole`), and there is no room, memory or time for it. Given up once `channel`, where there is one, can be
    read."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    limpet_saving.top = os.path.dirname(directory)
    try:
        clear(directory, channel >= 0)
        return save_all(directory, sys.modules["__main__"].__dict__, whole, whole or channel >= 0, channel)
    except Unwanted as unwanted:
        return str(unwanted)
    except OSError as error:
        return f"{error.filename or directory}: {error.strerror}"
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
