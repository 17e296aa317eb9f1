"""A language whose variables stay: one program runs all cells, and is asked line by line.

The program gets two descriptors as its last arguments. On the first it reads lines of JSON, {"code", "number"}; on the
second it answers with lines of JSON: any number of {"display": data} while the cell runs, MIME types with text, in
base64 where the form is binary, and then one {"result": text or null, "data": data or null} or {"error": [name,
message, traceback]}. SIGINT is to end the cell, which then answers as it does otherwise.
"""

import json
import os
import signal
import time

from limpet_languages.child import CELL, Child, end_like
from limpet_runtime import display, library
from limpet_runtime.errors import Foreign


class Value:
    """What the last expression of a cell gave, as its language writes it."""

    def __init__(self, text, data):
        self.text, self.data = text, data

    def __repr__(self):
        return self.text

    def _repr_mimebundle_(self, include=None, exclude=None):
        return self.data or None


class Live:
    def __init__(self, argv):
        self.argv = argv
        self.child = None

    def start(self):
        asks, self.asks = os.pipe()
        self.answers, answers = os.pipe()
        self.lines = b""
        argv = [*self.argv, str(asks), str(answers)]
        try:
            with library.Library():
                child = Child(argv, CELL, pass_fds=(asks, answers))
        finally:
            os.close(asks)
            os.close(answers)
        child.watch(self.answers)
        self.child = child

    def send(self, data):
        while data:
            data = data[os.write(self.asks, data) :]

    def answer(self):
        while b"\n" not in self.lines:
            data = os.read(self.answers, 1 << 16) if self.child.wait() else b""
            if not data:
                end_like(self.child.process)
            self.lines += data
        line, _, self.lines = self.lines.partition(b"\n")
        return json.loads(line)

    def run(self, code, number):
        if self.child is None:
            self.start()
        self.child.drain()
        with self.child:
            self.send(json.dumps({"code": code, "number": number}).encode("ascii") + b"\n")
            answer = self.answer()
            while "display" in answer:
                display.send(answer["display"], {})
                answer = self.answer()
        if "error" in answer:
            raise Foreign(*map(str, answer["error"]))
        if answer.get("result") is not None:
            return Value(str(answer["result"]), answer.get("data"))
        return None


# bash: one shell for all cells, which keeps variables, functions, options and the working directory.

# A shell that takes commands from a pipe as it does from a person: an interrupt ends what runs, and not the shell.
ARGV = ["bash", "--noprofile", "--norc", "--noediting", "-i"]
BEGIN = "PS1= PS2=; unset HISTFILE; set +m +o history +o histexpand"

LAST = 0.2  # seconds in which a program that an interrupted cell was starting is ended


def begun_by(pid):
    """Processes below it that an interrupt would end, as far as can be seen: those in the background of a shell ignore it."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        children = file.read().split()
    for child in children:
        try:
            with open(f"/proc/{child}/status") as file:
                status = dict(line.split(":\t", 1) for line in file)
            if not int(status["SigIgn"], 16) >> (signal.SIGINT - 1) & 1 and not status["State"].startswith("Z"):
                yield int(child)
            yield from begun_by(child)
        except OSError:
            pass  # it has ended


def nowhere(data):
    """What it says of having no terminal."""


class Bash:
    def __init__(self):
        self.child = None

    def start(self):
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()
        self.cell = os.memfd_create("cell")
        try:
            with library.Library():
                child = Child(ARGV, (nowhere, nowhere), stdin=commands, pass_fds=(answers, self.cell))
        finally:
            os.close(commands)
            os.close(answers)
        child.watch(self.answers)
        self.tell = f"\nprintf '%s\\n' $? >&{answers}\n"
        with child:
            self.ask(child, BEGIN)
        child.takers = dict(zip(child.takers, CELL))
        self.child = child

    def ask(self, child, command):
        """The status of a command."""
        self.send((command + self.tell).encode("utf-8", "surrogateescape"))
        answer = os.read(self.answers, 64) if child.wait() else b""
        if not answer:
            end_like(child.process)
        return answer.decode("ascii", "replace").strip()

    def send(self, data):
        while data:
            data = data[os.write(self.commands, data) :]

    def end_begun(self):
        """A shell that is interrupted while it starts a program does not wait for that, which has not heard of it, until its
        next command."""
        end = time.monotonic() + LAST
        while (begun := list(begun_by(self.child.process.pid))) and time.monotonic() < end:
            for pid in begun:
                try:
                    os.kill(pid, signal.SIGINT)
                except ProcessLookupError:
                    pass
            time.sleep(0.005)

    def write(self, code):
        """The shell reads all of a file before it runs any of it: one file does for all cells. It has no name, so that
        none is left wherever the interpreter ends."""
        data = code.encode("utf-8", "surrogateescape")
        at = 0
        while at < len(data):
            at += os.pwrite(self.cell, data[at:], at)
        os.ftruncate(self.cell, at)  # what it holds of a longer cell

    def run(self, code, number):
        if self.child is None:
            self.start()
        self.child.drain()
        self.write(code)
        with self.child:
            status = self.ask(self.child, f". /proc/self/fd/{self.cell} </dev/null")
            if self.child.interrupted:
                self.end_begun()
        if status != "0":
            message = f"the last command ended with exit code {status}"
            raise Foreign("ExitStatus", message, f"ExitStatus: {message}\n")
