"""A program beside the interpreter, in which cells run: what it writes, how it is interrupted, and what if it ends."""

import os
import select
import signal
import subprocess
import sys

CHUNK = 1 << 16  # what a pipe holds
PATIENCE = 1  # seconds that a program gets to end, once it has closed what it answers on
AGAIN = 0.2  # seconds after which one that was interrupted and goes on is interrupted again
REST = 5  # milliseconds in which a line that has begun is taken with its end


class Child:
    """A program whose standard output and error are taken in, in order, while somebody waits for it.

    It is a process group of its own, without input. `how` is for Popen. The interpreter gets SIGINT where a cell is
    to be interrupted. In the `with` of its program it passes that on, so that nothing is raised before the program has
    come to a stop and said so: KeyboardInterrupt is raised behind it.
    """

    def __init__(self, argv, takers, stdin=subprocess.DEVNULL, **how):
        outputs = [os.pipe(), os.pipe()]
        try:
            self.process = subprocess.Popen(
                argv,
                stdin=stdin,
                stdout=outputs[0][1],
                stderr=outputs[1][1],
                process_group=0,
                **how,
            )
        except BaseException:
            for read, _ in outputs:
                os.close(read)
            raise
        finally:
            for _, write in outputs:
                os.close(write)
        self.takers = {read: take for (read, _), take in zip(outputs, takers)}
        self.end = os.pidfd_open(self.process.pid)
        self.poll = select.poll()
        for fd in (*self.takers, self.end):
            self.poll.register(fd, select.POLLIN)
        self.interrupted = False

    def close(self):
        for fd in [*self.takers, self.end]:
            os.close(fd)
        self.takers = {}

    def watch(self, fd):
        """Whoever waits also hears that `fd` can be read."""
        self.poll.register(fd, select.POLLIN)

    def __enter__(self):
        self.interrupted = False
        self.previous = signal.signal(signal.SIGINT, self.interrupt)
        return self

    def __exit__(self, kind, *unused):
        signal.signal(signal.SIGINT, self.previous)
        if self.interrupted and kind is None:
            raise KeyboardInterrupt

    def interrupt(self, *unused):
        self.interrupted = True
        try:
            os.killpg(self.process.pid, signal.SIGINT)
        except ProcessLookupError:
            pass

    def take(self, ready):
        """All that was in its pipes when they were found to be ready. Nobody waits for one that goes on writing."""
        for fd in [fd for fd, _ in ready if fd in self.takers]:
            data = os.read(fd, CHUNK)
            if data:
                self.takers[fd](data + rest(fd, data))
            else:
                self.poll.unregister(fd)
                os.close(fd)
                del self.takers[fd]

    def drain(self):
        self.take(self.poll.poll(0))

    def wait(self):
        """Until what is watched can be read, or the program has ended: all that it wrote before is taken by then.

        False: it has ended.
        """
        while True:
            ready = self.poll.poll(AGAIN * 1000)  # also before: an interrupt does not end it
            others = [fd for fd, _ in ready if fd not in self.takers]
            self.take(ready)
            if others:
                return others != [self.end]
            if not ready and self.interrupted:
                self.interrupt()


def rest(fd, begun):
    """What follows at once where a line has begun: some programs write one in pieces."""
    poll, data = select.poll(), b""
    poll.register(fd, select.POLLIN)
    while len(data) < CHUNK and not (data or begun).endswith(b"\n") and poll.poll(REST):
        more = os.read(fd, CHUNK)
        if not more:
            break
        data += more
    return data


def to_stdout(data):
    sys.__stdout__.buffer.write(data)
    sys.__stdout__.flush()


def to_stderr(data):
    sys.__stderr__.buffer.write(data)
    sys.__stderr__.flush()


CELL = (to_stdout, to_stderr)


def end_like(process):
    """The variables were in it: the interpreter ends as it did, so that nobody takes them for kept. One that lives but
    does not answer any more is ended."""
    try:
        status = process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        status = process.wait()
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(max(status, 0))
