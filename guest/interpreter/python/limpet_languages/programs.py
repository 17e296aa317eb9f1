"""A language of programs: each cell is one, compiled where that is needed, and run where the context is."""

import os
import re
import shutil
import signal
import tempfile

from limpet_languages.child import CELL, Child, to_stderr
from limpet_runtime import library
from limpet_runtime.errors import Foreign

ERROR = re.compile(r"error|:\d+:\d+:")  # what compilers have in the first line of a complaint
COMPLAINT = 1 << 20  # bytes that a compiler's complaint has at most


class Complaint:
    """What a program says that compiles its source before it runs: held back while it is about the source, whose path
    it begins with then."""

    def __init__(self, path):
        self.begins = os.fsencode(path) + b":"
        self.said = bytearray()
        self.held = True

    def take(self, data):
        self.said += data
        if not self.held or len(self.said) > COMPLAINT or self.said[: len(self.begins)] != self.begins[: len(self.said)]:
            self.release()

    def release(self):
        self.held = False
        to_stderr(bytes(self.said))
        self.said.clear()

    def text(self):
        return self.said.decode("utf-8", "replace")


class Programs:
    def __init__(self, language):
        self.language = language

    def run(self, code, number):
        with library.Library():
            self.build_and_execute(code)

    def build_and_execute(self, code):
        folder = tempfile.mkdtemp(prefix="limpet-program-")
        try:
            with open(os.path.join(folder, self.language["file"]), "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(code)
            if "compile" in self.language:
                self.compile(folder)
            self.execute(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def argv(self, key, folder):
        places = {"file": self.language["file"], "program": os.path.join(folder, "program")}
        if key == "run":
            places["file"] = os.path.join(folder, places["file"])
        return [word.format(**places) for word in self.language[key]]

    def compile(self, folder):
        said = bytearray()
        status = ended(self.argv("compile", folder), (said.extend, said.extend), folder)
        if status != 0:
            refuse(said.decode("utf-8", "replace"))

    def execute(self, folder):
        argv = self.argv("run", folder)
        program = loaded(argv[0]) if argv[0].startswith(folder) else None
        complaint = Complaint(os.path.join(folder, self.language["file"])) if "refused" in self.language else None
        try:
            status = ended(argv, (CELL[0], complaint.take) if complaint else CELL, None, program)
        finally:
            if program is not None:
                os.close(program)
        if complaint:
            self.judge(complaint, folder)
        if status < 0:
            fail("Signal", f"the program was ended by {signal_name(-status)}")
        if status > 0:
            fail("ExitStatus", f"the program ended with exit code {status}")

    def judge(self, complaint, folder):
        if complaint.text().rstrip().endswith(self.language["refused"]):
            refuse(complaint.text().replace(os.path.join(folder, ""), ""))
        complaint.release()


def refuse(said):
    """The cell fails as its compiler says."""
    first = next(filter(ERROR.search, said.splitlines()), "the program does not compile")
    raise Foreign("CompileError", first.strip(), said)


def fail(name, message):
    raise Foreign(name, message, f"{name}: {message}\n")


def signal_name(number):
    text = signal.strsignal(number)
    try:
        return f"{signal.Signals(number).name} ({text})"
    except ValueError:
        return f"signal {number}"


def loaded(path):
    """A descriptor of a copy in memory: nothing is executed from where the sandbox keeps temporary files."""
    copy = os.memfd_create("program", os.MFD_CLOEXEC)
    with open(path, "rb") as file:
        while os.sendfile(copy, file.fileno(), None, 1 << 30):
            pass
    return copy


def ended(argv, takers, cwd, program=None):
    """Exit code of a program, or the negated number of the signal that ended it. What it left running goes on.

    `program`: a descriptor of it; else it is argv[0].
    """
    if program is None:
        child = Child(argv, takers, cwd=cwd)
    else:
        child = Child(argv, takers, cwd=cwd, executable=f"/proc/self/fd/{program}", pass_fds=[program])
    try:
        with child:
            child.wait()
            status = child.process.wait()
            child.drain()
    finally:
        child.close()
    return status
