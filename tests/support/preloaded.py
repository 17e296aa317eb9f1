"""Python programs that have imported their modules before they are started: a copy of a process that did it once.

Most of the time of a test of a server is otherwise spent on importing. Where a command has to start it, a stand-in,
which imports next to nothing, is started in the program's place. The program is a copy that has the stand-in's arguments,
environment, directory and standard streams.
"""

import json
import os
import select
import signal
import socket
import sys

PR_SET_PDEATHSIG = 1
HEADER = 1 << 16
NUMBER = 4  # bytes of a process's number, and of its status


class Preloaded:
    """A process with these modules imported."""

    def __init__(self, directory, *modules):
        self.path = os.path.join(directory, "preloaded")
        with socket.socket(socket.AF_UNIX) as listener:  # the process has it alone: who waits for it hears of its end
            listener.bind(self.path)
            listener.listen()
            self.pid = os.posix_spawn(
                sys.executable, [sys.executable, "-W", "ignore", __file__, "serve", *modules], os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, listener.fileno(), 0)],
            )  # fmt: skip

    def command(self, module, *arguments):
        """What starts `python -m module arguments...`."""
        return [sys.executable, "-I", "-S", __file__, "start", self.path, module, *arguments]

    def start(self, streams, environment, module, *arguments):
        """Starts `python -m module arguments...`, or `python module arguments...` where that is a file, which ends with us;
        `streams` are its standard ones."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self.path)
        send(connection, [[module, *arguments], environment, os.getcwd()], streams)
        return Program(connection)

    def close(self):
        os.kill(self.pid, signal.SIGTERM)
        os.waitpid(self.pid, 0)


class Program:
    """What subprocess.Popen has: signals go to the program itself, and its status is its own."""

    def __init__(self, connection):
        self.connection, self.returncode = connection, None
        self.pid = receive(connection)

    def wait(self, timeout=None):
        if self.returncode is None:
            if not select.select([self.connection], [], [], timeout)[0]:
                raise TimeoutError(f"process {self.pid} has not ended within {timeout} s")
            self.returncode = receive(self.connection)
            self.connection.close()
        return self.returncode

    def poll(self):
        try:
            return self.wait(0)
        except TimeoutError:
            return None

    def send_signal(self, number):
        """As Popen: nothing happens to one that has just ended."""
        if self.poll() is None:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def send(connection, what, streams):
    what = json.dumps(what).encode()
    assert len(what) < HEADER
    socket.send_fds(connection, [what], streams)


def receive(connection):
    try:
        number = connection.recv(NUMBER, socket.MSG_WAITALL)
    except ConnectionResetError:
        number = b""
    if len(number) != NUMBER:
        raise EOFError("the keeper of a preloaded program is gone")
    return int.from_bytes(number, "little", signed=True)


def start(path, *arguments):
    """The stand-in: ends as the program does, which ends with it."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        send(connection, [arguments, dict(os.environ), os.getcwd()], [0, 1, 2])
        for fd in range(3):
            os.close(fd)
        os._exit(Program(connection).wait() % 256)


def serve(*modules):
    import ctypes
    import importlib

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)  # tests may be killed
    del sys.path[0]  # whose modules have the names of packages
    for module in modules:
        importlib.import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a keeper ended
    listener = socket.socket(fileno=0)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            keep(connection)
        connection.close()


def keep(connection):
    """Starts a program, and is there until it ends or its stand-in has."""
    what, fds, _, _ = socket.recv_fds(connection, HEADER, 3)
    pid = os.fork()
    if pid == 0:
        connection.close()
        run(*json.loads(what), fds)
    for fd in fds:
        os.close(fd)
    tell(connection, pid)
    if connection in select.select([os.pidfd_open(pid), connection], [], [])[0]:
        os.kill(pid, signal.SIGTERM)
    tell(connection, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    os._exit(0)


def tell(connection, number):
    try:
        connection.send(number.to_bytes(NUMBER, "little", signed=True))
    except OSError:  # whoever started the program is gone
        pass


def run(arguments, environment, directory, fds):
    import atexit
    import runpy
    import threading

    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.argv = arguments
    sys.stdin, sys.stdout, sys.stderr = (open(fd, mode, closefd=False) for fd, mode in enumerate("rww"))
    status = 0
    try:
        if arguments[0].endswith(".py"):
            runpy.run_path(arguments[0], run_name="__main__")
        else:
            runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        status = ended.code or 0
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # to take apart what was imported takes long


if __name__ == "__main__":
    {"start": start, "serve": serve}[sys.argv[1]](*sys.argv[2:])
