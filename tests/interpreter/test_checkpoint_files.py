"""Open files, pipes and sockets around checkpoints: copies share nothing of what forks do."""

import os
import socket

import pytest

from .harness import CheckpointFailed


def restore(session):
    return session.checkpoint().restore()


# Files


def test_positions_are_those_of_the_checkpoint(session):
    session.run("f = open('text', 'w+b', buffering=0); f.write(b'0123456789'); f.seek(3)")
    frozen = session.checkpoint()
    session.run("f.seek(9)")
    first, second = frozen.restore(), frozen.restore()
    assert first.not_restored == []
    assert (first.value("f.read(2)"), second.value("f.read(3)"), session.value("f.read()")) == (
        b"34",
        b"345",
        b"9",
    )
    assert first.value("f.tell()") == 5


def test_writing_goes_on_where_it_was(session):
    session.run("f = open('text', 'w', buffering=1); print('one', file=f)")
    frozen = session.checkpoint()
    session.run("print('lost', file=f)")
    session.end()
    frozen.restore().run("print('two!', file=f)")
    assert (session.directory / "text").read_text() == "one\ntwo!\n"


def test_files_are_neither_emptied_nor_made_again(session):
    session.run("f = open('text', 'w'); f.write('content'); f.flush()")
    session.run("x = open('new', 'x'); x.write('new'); x.flush()")
    restored = restore(session)
    assert (session.directory / "text").read_text() == "content"
    restored.run("x.write('er'); x.flush()")
    assert (session.directory / "new").read_text() == "newer"


def test_flags_of_files(session):
    session.run("""
import fcntl, os
a = os.open('log', os.O_WRONLY | os.O_CREAT | os.O_APPEND)
b = os.open('log', os.O_RDONLY | os.O_CLOEXEC)
os.set_inheritable(a, True)
def flags(fd): return fcntl.fcntl(fd, fcntl.F_GETFL), os.get_inheritable(fd)
before = flags(a), flags(b)
""")
    restored = restore(session)
    assert restored.value("(flags(a), flags(b)) == before") is True
    session.run("os.write(a, b'1')")
    restored.run("os.write(a, b'2')")
    assert (session.directory / "log").read_text() == "12"


def test_a_file_without_a_name(session):
    session.run("import os, tempfile\nf = tempfile.TemporaryFile(); f.write(b'abc'); f.flush(); f.seek(1)")
    session.run("import mmap\nm = os.memfd_create('m'); os.write(m, b'xyz'); os.lseek(m, 2, 0)")
    restored = restore(session)
    assert restored.not_restored == []
    assert restored.value("f.read(), os.read(m, 5)") == (b"bc", b"z")


def test_a_file_that_can_not_be_opened_again(tmp_path):
    """The user may no longer open it: its position is set, and shared."""
    from .harness import Interpreter
    from .test_checkpoints import become_limited

    tmp_path.chmod(0o777)
    session = Interpreter(tmp_path, prepare=become_limited)
    try:
        session.run("import os\nf = open('text', 'w+'); f.write('abcdef'); f.seek(2)\nos.chmod('text', 0)")
        frozen = session.checkpoint()
        session.run("f.seek(5)")
        restored = frozen.restore()
        descriptor = restored.value("f.fileno()")
        assert restored.not_restored == [
            f"the position in the file on descriptor {descriptor} is shared with other copies of the session"
        ]
        assert restored.value("f.read(2)") == "cd"
    finally:
        session.close()


def test_a_directory_and_a_device(session):
    session.run("import os\nd = os.open('.', os.O_RDONLY); n = open('/dev/urandom', 'rb', buffering=0)")
    restored = restore(session)
    assert restored.not_restored == []
    assert restored.value("os.listdir(d), len(n.read(4))") == ([], 4)


def test_a_lock_is_not_kept_by_a_copy(session):
    session.run("""
import fcntl, os
f = open('lock', 'w')
fcntl.flock(f, fcntl.LOCK_EX)
""")
    frozen = session.checkpoint()
    # Closing is enough to give it up, unless somebody shares the open file.
    session.run("f.close(); g = open('lock'); fcntl.flock(g, fcntl.LOCK_EX | fcntl.LOCK_NB)")
    restored = frozen.restore()
    descriptor = restored.value("f.fileno()")
    assert restored.not_restored == [f"the lock on the file on descriptor {descriptor} is not held"]
    assert restored.run("fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)").error["name"] == "BlockingIOError"


def test_a_database_goes_on(session):
    session.run("""
import sqlite3
db = sqlite3.connect('data.db')
db.execute('create table t (x)'); db.execute('insert into t values (1)'); db.commit()
""")
    frozen = session.checkpoint()
    session.run("db.execute('insert into t values (2)'); db.commit(); db.execute('insert into t values (3)')")
    session.end()
    restored = frozen.restore()
    assert restored.value("db.execute('select x from t').fetchall()") == [(1,), (2,)]
    restored.run("db.execute('insert into t values (4)'); db.commit()")
    assert restored.value("db.execute('select x from t').fetchall()") == [(1,), (2,), (4,)]


# Pipes


def test_a_pipe_of_a_cell(session):
    session.run("import os\nr, w = os.pipe(); v = os.dup(w); os.set_blocking(r, False)")
    frozen = session.checkpoint()
    first, second = frozen.restore(), frozen.restore()
    assert first.not_restored == []
    first.run("os.write(v, b'first')")
    second.run("os.write(w, b'second')")
    session.run("os.write(w, b'live')")
    seen = [peer.value("os.read(r, 10)") for peer in (first, second, session)]
    assert seen == [b"first", b"second", b"live"]
    assert first.value("os.get_blocking(r), os.get_blocking(w)") == (False, True)
    assert first.value("os.close(w); os.close(v); os.read(r, 1)") == b""


def test_what_is_in_a_pipe(session):
    session.run("""
import fcntl, os
r, w = os.pipe(); os.write(w, b'abc')
large_r, large_w = os.pipe(); fcntl.fcntl(large_w, fcntl.F_SETPIPE_SZ, 1 << 20)
large = os.urandom(1 << 20); os.write(large_w, large)
empty_r, _ = os.pipe()
os.set_blocking(empty_r, False)
""")
    frozen = session.checkpoint()
    restored = frozen.restore(), frozen.restore(branched=True)
    assert [peer.not_restored for peer in restored] == [[], []]
    for peer in (session, *restored):
        assert peer.value("os.write(w, b'def'); os.read(r, 10)") == b"abcdef"
        assert peer.value("open(large_r, 'rb', closefd=False).read(len(large)) == large")
        assert peer.run("os.read(empty_r, 1)").error["name"] == "BlockingIOError"


def test_what_a_child_has_written(session):
    session.run("""
import subprocess
child = subprocess.Popen("echo done; exec sleep 1000", shell=True, stdout=subprocess.PIPE)
import select; select.select([child.stdout], [], [])
""")
    frozen = session.checkpoint()
    assert session.value("child.stdout.readline()") == b"done\n"
    assert frozen.restore().value("child.stdout.read()") == b"done\n"
    session.run("child.kill(); child.wait()")


def test_a_copy_keeps_no_pipe_open(session):
    """Closing the last end in the interpreter is seen on the other side, copies or not."""
    session.run("""
import os, subprocess
child = subprocess.Popen(['cat'], stdin=subprocess.PIPE)
r, w = os.pipe()
""")
    session.checkpoint()
    session.checkpoint().restore()
    assert session.value("child.stdin.close(); child.wait(20)") == 0
    assert session.value("os.close(w); os.read(r, 1)") == b""


def test_the_output_ends_with_the_interpreter(session):
    frozen = session.checkpoint()
    restored = frozen.restore()
    restored.run("import os; spare = os.dup(1)")
    restored.checkpoint()
    restored.end()
    while restored.selector.get_map().get(restored.pipes[1]):
        restored.pump_output(20)
    assert restored.output[1] == b""


def test_pipes_to_children_are_closed(session):
    session.run("""
import subprocess
child = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
child.stdin.write(b"x")
child.stdout.read(1)  # it is what it is named after: Popen() returns a moment earlier
""")
    pid = session.value("child.pid")
    restored = restore(session)
    fds = restored.value("[child.stdin.fileno(), child.stdout.fileno()]")
    assert sorted(restored.not_restored) == sorted(
        [f"child process {pid} (cat) is gone", *(f"the pipe on descriptor {fd} was closed" for fd in fds)]
    )
    assert restored.value("child.stdout.read()") == b""
    assert restored.run("child.stdin.write(b'x'); child.stdin.flush()").error["name"] == "BrokenPipeError"
    assert session.value("child.communicate(b'text', timeout=20)[0]") == b"text"


def test_duplicates_of_the_standard_streams(session):
    session.run("import os\nsaved = [os.dup(1), os.dup(2)]")
    restored = restore(restore(session))
    assert restored.not_restored == []
    reply = restored.run("os.write(saved[0], b'to out'); os.write(saved[1], b'to err');")
    assert (reply.stdout, reply.stderr) == ("to out", "to err")


def test_terminals_are_closed(session):
    """The other side learns when the interpreter closes its end, copies or not."""
    session.run("""
import os
master, slave = os.openpty()
child = os.fork()
if child == 0:
    os.close(master)
    try:
        while os.read(slave, 10): pass
    finally: os._exit(5)
os.close(slave)
""")
    frozen = session.checkpoint()
    restored = frozen.restore()
    assert f"the terminal on descriptor {restored.value('master')} was closed" in restored.not_restored
    assert restored.value("os.read(master, 10)") == b""
    assert session.value("os.close(master); os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])") == 5


# Sockets


@pytest.mark.parametrize("kind", ["STREAM", "DGRAM", "SEQPACKET"])
def test_a_pair_of_sockets(session, kind):
    session.run(f"""
import socket
pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_{kind}) for _ in range(3)]
for left, right in pairs: left.settimeout(20); right.settimeout(20)
""")
    frozen = session.checkpoint()
    first, second = frozen.restore(), frozen.restore()
    assert first.not_restored == second.not_restored == []
    code = """
for number, (left, right) in enumerate(pairs):
    left.send(b'%d>' % number); right.send(b'<%d' % number)
[(right.recv(9), left.recv(9)) for left, right in pairs]"""
    expected = [(b"%d>" % n, b"<%d" % n) for n in range(3)]
    assert first.value(code) == second.value(code) == session.value(code) == expected


def test_what_is_in_a_pair_of_sockets(session):
    session.run("import socket\na, b = socket.socketpair(); a.send(b'not read'); b.send(b'neither')")
    restored = restore(restore(session))
    assert restored.value("a.recv(99), b.recv(99)") == (b"neither", b"not read")
    assert session.value("a.recv(99), b.recv(99)") == (b"neither", b"not read")


def test_half_of_a_pair(session):
    session.run("import socket\na, b = socket.socketpair(); c, d = socket.socketpair(); b.close()")
    restored = restore(session)
    descriptor = restored.value("a.fileno()")
    assert restored.not_restored == [f"the local connection on descriptor {descriptor} was closed"]
    assert restored.value("c.send(b'x'); d.recv(1), a.recv(1)") == (b"x", b"")


def test_a_named_pipe_is_the_same(session):
    session.run("""
import os
os.mkfifo('named')
both = os.open('named', os.O_RDWR)
ends = [os.open('named', os.O_WRONLY), os.open('named', os.O_RDONLY | os.O_NONBLOCK)]
os.close(both)
""")
    frozen = session.checkpoint()
    session.run("for end in ends: os.close(end)")
    restored = frozen.restore()
    assert restored.not_restored == []
    with open(session.directory / "named", "wb", 0) as other:
        other.write(b"for whoever has it")
        assert restored.value("os.read(ends[1], 100), os.get_blocking(ends[1])") == (b"for whoever has it", False)
    assert restored.value("os.write(ends[0], b'own'), os.read(ends[1], 100), os.get_blocking(ends[0])") == (3, b"own", True)
    restored.run("for end in ends: os.close(end)")
    with pytest.raises(OSError):  # nobody reads it, nor does the frozen copy
        os.open(session.directory / "named", os.O_WRONLY | os.O_NONBLOCK)


def test_a_network_connection_is_closed(session):
    with socket.create_server(("127.0.0.1", 0)) as server:
        session.run(f"""
import socket
s = socket.create_connection(('127.0.0.1', {server.getsockname()[1]})); s.settimeout(20)
""")
        connection, _ = server.accept()
    with connection:
        connection.settimeout(20)
        frozen = session.checkpoint()
        restored = frozen.restore()
        descriptor = restored.value("s.fileno()")
        assert restored.not_restored == [f"the network connection on descriptor {descriptor} was closed"]
        assert restored.value("s.recv(10)") == b""
        assert restored.run("s.send(b'x')").error["name"] == "BrokenPipeError"
        assert session.value("s.send(b'live')") == 4
        assert connection.recv(10) == b"live"
        session.run("s.close()")
        assert connection.recv(10) == b""  # nobody else holds it


def test_a_server_is_closed(session):
    session.run("""
import socket
server = socket.socket(); server.bind(('127.0.0.1', 0)); server.listen()
local = socket.socket(socket.AF_UNIX); local.bind('socket'); local.listen()
address = server.getsockname()
""")
    frozen = session.checkpoint()
    session.run("server.close(); server = socket.socket(); server.bind(address); server.listen()")
    restored = frozen.restore()
    fds = restored.value("server.fileno(), local.fileno()")
    expected = {f"the listening socket on descriptor {fd} was closed" for fd in fds}
    assert set(restored.not_restored) == expected
    assert restored.run("server.accept()").error["name"] == "OSError"


# Polling


def test_epoll_watches_the_new_files(session):
    session.run("""
import os, select
r, w = os.pipe()
e = select.epoll(); e.register(r, select.EPOLLIN | select.EPOLLET); e.register(w, select.EPOLLOUT)
""")
    frozen = session.checkpoint()
    session.run("e.unregister(w); os.write(w, b'x')")
    restored = frozen.restore()
    assert restored.value("dict(e.poll(0)) == {w: select.EPOLLOUT}") is True
    restored.run("os.write(w, b'x')")
    assert restored.value("dict(e.poll(20)) == {r: select.EPOLLIN, w: select.EPOLLOUT}") is True
    assert session.value("dict(e.poll(20)) == {r: select.EPOLLIN}") is True


def test_event_counters(session):
    session.run("import os\ne = os.eventfd(5, os.EFD_NONBLOCK | os.EFD_CLOEXEC)")
    frozen = session.checkpoint()
    session.run("os.eventfd_read(e)")
    first, second = frozen.restore(), frozen.restore()
    assert first.value("os.eventfd_read(e)") == second.value("os.eventfd_read(e)") == 5
    assert first.run("os.eventfd_read(e)").error["name"] == "BlockingIOError"


CREATE = """
import ctypes, os, signal
libc = ctypes.CDLL(None)
times = ctypes.c_long * 4  # the interval and what is left, in seconds and nanoseconds
"""


def test_timers_are_not_shared(session):
    session.run(CREATE + """
timer, ticked = (libc.timerfd_create(1, os.O_NONBLOCK) for _ in range(2))
for fd, left in (timer, 1000), (ticked, 0): libc.timerfd_settime(fd, 0, times(0, 0, left, 1), None)
import select; select.select([ticked], [], [])
""")
    frozen = session.checkpoint()
    session.run("os.read(ticked, 8); libc.timerfd_settime(timer, 0, times(), None)")
    for restored in frozen.restore(), frozen.restore():
        assert restored.not_restored == []
        assert restored.value("now = times(); libc.timerfd_gettime(timer, now); 900 < now[2] <= 1000") is True
        assert restored.value("select.select([ticked], [], []); os.read(ticked, 8)") == (1).to_bytes(8, "little")


def test_signals_are_not_shared(session):
    session.run(CREATE + """
signals = libc.signalfd(-1, ctypes.byref(ctypes.c_ulonglong(1 << (signal.SIGUSR1 - 1))), os.O_NONBLOCK)
""")
    restored = restore(session)
    block = "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]); os.kill(os.getpid(), signal.SIGUSR1)"
    assert restored.value(f"{block}; os.read(signals, 128)[0] == signal.SIGUSR1") is True
    assert session.run("os.read(signals, 128)").error["name"] == "BlockingIOError"


def test_watches_are_gone(session):
    session.run(CREATE + "watches = libc.inotify_init1(os.O_NONBLOCK); libc.inotify_add_watch(watches, b'.', 0x100)")
    restored = restore(session)
    assert restored.not_restored == [f"what descriptor {restored.value('watches')} watches (inotify) is not watched any more"]
    restored.run("open('new', 'w').close()")
    assert restored.run("os.read(watches, 128)").error["name"] == "BlockingIOError"
    assert session.value("len(os.read(watches, 128)) > 0") is True


# Limits


def test_many_open_files(session):
    (session.directory / "text").write_text("0123456789")
    session.run("""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
files = [open('text') for _ in range(800)]
for i, f in enumerate(files): f.seek(i % 10)
""")
    restored = restore(session)
    assert restored.value("''.join(f.read(1) for f in files)") == "0123456789" * 80


def test_no_descriptor_is_left(session):
    code = """
import os, resource
r, w = os.pipe()
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (1100, hard))
held = []
try:
    while True: held.append(os.open('text', os.O_RDONLY | os.O_CREAT))
except OSError as error: pass
len(held) > 500"""
    assert session.value(code) is True
    with pytest.raises(CheckpointFailed, match="no more open files"):
        session.checkpoint()
    session.run("os.close(held.pop())")
    frozen = session.checkpoint()
    for _ in range(2):
        restored = frozen.restore()
        assert restored.not_restored == []
        assert restored.value("os.write(w, b'x'); os.read(r, 1), os.read(held[-1], 1)") == (b"x", b"")
    assert restored.checkpoint().restore().value("len(held) > 500") is True


def test_what_there_is_no_room_to_tell(session):
    session.run("import os\nends = [os.pipe()[0] for _ in range(50)]\nfor fd in ends: os.close(fd)")
    restored = restore(session)
    assert len(restored.not_restored) == 32
    assert restored.not_restored[-1] == "and 19 more"


def test_a_closed_channel_number_is_nobodys(session):
    session.run("import os\nos.closerange(3, 256)\nf = open('text', 'w+')")
    restored = restore(session)
    assert restored.value("f.write('x')") == 1
    assert os.path.exists(session.directory / "text")
