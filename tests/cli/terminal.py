"""A person at a terminal: types, and looks at what is on the screen.

The screen is what a terminal shows after all that was written to it: enough of one for a line editor, in which
lines do not wrap.
"""

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import time

ROWS, COLUMNS = 50, 160
TIMEOUT = float(os.environ.get("TT", 60))
CONTROL = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b[()][0-9A-Za-z]|\x1b[=>78]|[\s\S]")


class Screen:
    """Every line ever shown, the oldest first."""

    def __init__(self):
        self.lines = [""]
        self.row = self.column = 0

    def write(self, text):
        for match in CONTROL.finditer(text):
            if match[2]:
                self.control(match[1], match[2])
            elif len(match[0]) == 1:
                self.character(match[0])

    def character(self, character):
        if character == "\n":
            self.row += 1
            if self.row == len(self.lines):
                self.lines.append("")
        elif character == "\r":
            self.column = 0
        elif character == "\b":
            self.column = max(0, self.column - 1)
        elif character >= " ":
            self.put(character)

    def put(self, character):
        line = self.lines[self.row].ljust(self.column)
        self.lines[self.row] = line[: self.column] + character + line[self.column + 1 :]
        self.column += 1

    def control(self, numbers, letter):
        n = int(numbers) if numbers.isdigit() else 1
        line = self.lines[self.row]
        if letter == "A":
            self.row = max(0, self.row - n)
        elif letter == "C":
            self.column += n
        elif letter == "D":
            self.column = max(0, self.column - n)
        elif letter == "G":
            self.column = n - 1
        elif letter == "K":
            self.lines[self.row] = line[: self.column]
        elif letter == "P":
            self.lines[self.row] = line[: self.column] + line[self.column + n :]
        elif letter == "@":
            self.lines[self.row] = line[: self.column] + " " * n + line[self.column :]
        elif letter == "J":
            self.lines[self.row] = line[: self.column]
            del self.lines[self.row + 1 :]

    def text(self):
        return "\n".join(line.rstrip() for line in self.lines)


class Terminal:
    """A program in a terminal of its own."""

    def __init__(self, command, environment, directory):
        self.master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=directory, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.raw = ""
        self.screen = Screen()
        self.seen = 0  # characters of `raw` that were expected already

    def type(self, text):
        os.write(self.master, text.encode())

    def enter(self, *lines):
        for line in lines:
            self.type(line + "\r")

    def paste(self, text):
        self.type(f"\x1b[200~{text}\x1b[201~".replace("\n", "\r"))

    def read(self, end):
        """More of what the program writes; False when it has closed the terminal."""
        if not select.select([self.master], [], [], max(0, end - time.monotonic()))[0]:
            raise AssertionError(f"this is not what was waited for:\n{self.screen.text()}\n{self.raw[self.seen:]!r}")
        try:
            data = os.read(self.master, 1 << 16)
        except OSError:
            data = b""
        text = data.decode("utf-8", "replace")
        self.raw += text
        self.screen.write(text)
        return bool(data)

    def expect(self, pattern):
        """Waits until the pattern comes behind what was expected before."""
        end = time.monotonic() + TIMEOUT
        while True:
            match = re.compile(pattern, re.M).search(self.raw, self.seen)
            if match:
                self.seen = match.end()
                return match
            assert self.read(end), f"{pattern} did not come:\n{self.screen.text()}\n{self.raw[self.seen:]!r}"

    def until(self, condition, wanted):
        """Waits until the condition holds for the screen."""
        end = time.monotonic() + TIMEOUT
        while not condition(self.screen.text()):
            assert self.read(end), f"{wanted!r} did not come:\n{self.screen.text()}"

    def shows(self, text):
        """Waits until the screen has this text."""
        self.until(lambda screen: text in screen, text)

    def last_line(self, line):
        """Waits until the last line is this one."""
        self.until(lambda screen: screen.rstrip("\n").rpartition("\n")[2] == line, line)

    def listens(self):
        """Waits until keys reach the program one by one: until then the terminal itself takes Backspace and Ctrl-C."""
        end = time.monotonic() + TIMEOUT
        while termios.tcgetattr(self.master)[3] & termios.ICANON:
            assert time.monotonic() < end, "the program does not read keys"
            time.sleep(0.001)

    def ends(self):
        """The exit status; all that was written is on the screen."""
        end = time.monotonic() + TIMEOUT
        while self.read(end):
            pass
        return self.process.wait(TIMEOUT)

    def close(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.master)
