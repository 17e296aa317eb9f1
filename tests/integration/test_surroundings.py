"""What code finds around it: places for files, memory to share, its limits, its user. As on a machine of that size."""

import pytest

MIB = 1 << 20
pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def machine(limpetd):
    if not limpetd.isolates:
        pytest.skip("code is on the machine itself")
    with limpetd.client() as client, client.open("machine", memory="512m", cpus=1, disk="400m", pids=77) as session:
        yield session


def value(session, code):
    result = session.run(code, timeout=120)
    assert result.ok, (result.status, result.error and result.error.message)
    return eval(result.result)


@pytest.mark.docker
@pytest.mark.proves("security: too many or too large files")
def test_temporary_files_and_the_home_are_on_the_disk(machine):
    """With room for more than the memory holds, all of them together within `disk`."""
    code = """
import errno, os, shutil, subprocess, tempfile
def fill(path, most):
    written = 0
    try:
        with open(path, 'wb', buffering=0) as file:
            while written < most:
                written += file.write(bytes(1 << 20))
    except OSError as error:
        return written >> 20, errno.errorcode[error.errno]
    return written >> 20, None
with tempfile.TemporaryDirectory() as one:
    found = one.startswith('/tmp/'), fill(one + '/a', 150 << 20), fill(os.path.expanduser('~/b'), 150 << 20), fill('c', 1 << 40)
os.remove('/home/user/b'), os.remove('c')
found
"""
    is_tmp, one, two, (three, why) = value(machine, code)
    assert is_tmp and one == two == (150, None) and why == "ENOSPC" and three < 110


@pytest.mark.docker
@pytest.mark.parametrize("place", ["/tmp", "/home/user", "/session"])
def test_programs_run_wherever_they_are_written(machine, place):
    code = f"""
import os, subprocess
with open('{place}/program', 'w') as file:
    file.write('#!/bin/sh\\necho ran')
os.chmod('{place}/program', 0o700)
subprocess.run(['{place}/program'], capture_output=True, text=True).stdout
"""
    assert value(machine, code) == "ran\n"


@pytest.mark.docker
def test_half_of_the_memory_can_be_shared(machine):
    code = """
import os
from multiprocessing import shared_memory
block = shared_memory.SharedMemory(create=True, size=200 << 20)
block.buf[:] = bytes(1) * len(block.buf)
block.close(), block.unlink()
room = os.statvfs('/dev/shm')
room.f_blocks * room.f_frsize >> 20
"""
    assert value(machine, code) == 256


@pytest.mark.docker
@pytest.mark.proves("security: learning about the machine and its other users")
def test_limits_are_those_of_the_session(machine):
    code = """
import os, subprocess
def read(path):
    with open(path) as file:
        return file.read().split()
def said(command):
    return subprocess.run(command, shell=True, capture_output=True, text=True).stdout
{
    "python": (os.cpu_count(), os.process_cpu_count()),
    "nproc": said("nproc"),
    "processors": read("/proc/cpuinfo").count("processor"),
    "free": said("free -m").split()[7],
    "memory.max": read("/sys/fs/cgroup/memory.max"),
    "cpu.max": read("/sys/fs/cgroup/cpu.max"),
    "pids.max": read("/sys/fs/cgroup/pids.max"),
}
"""
    assert value(machine, code) == {
        "python": (1, 1), "nproc": "1\n", "processors": 1, "free": "512", "memory.max": [str(512 * MIB)],
        "cpu.max": ["100000", "100000"], "pids.max": ["77"],
    }  # fmt: skip
    with pytest.raises(AssertionError, match="Read-only|Permission"):
        value(machine, "open('/sys/fs/cgroup/memory.max', 'w')")
    assert "Code can write to /session" in machine.run("open('/output.csv', 'w')").error.traceback


@pytest.mark.docker
def test_libraries_find_the_limits(machine):
    code = """
import psutil, joblib, time
memory = psutil.virtual_memory()
born = psutil.Process().create_time()
memory.total >> 20, memory.available >> 20, psutil.cpu_count(), joblib.cpu_count(), 0 <= time.time() - born < 3600
"""
    assert value(machine, code) == (512, 512, 1, 1, True)


def test_chinese_japanese_and_korean_are_drawn(machine):
    """Whatever fonts a style asks for."""
    code = "import seaborn, matplotlib.pyplot as plt; seaborn.set_theme(font='serif'); plt.title('销售额 東京 カー 매출'); plt.show()"
    for result in machine.run(code.replace("seaborn.set_theme(font='serif'); ", ""), timeout=60), machine.run(code, timeout=60):
        assert result.ok and result.images and result.stderr == ""
    assert int(machine.exec("fc-list | wc -l").stdout) > 1


def test_tables_are_written_as_parquet(machine):
    code = "import pandas as pd; pd.DataFrame({'a': [1, 2]}).to_parquet('a.parquet'); pd.read_parquet('a.parquet').a.sum().item()"
    assert value(machine, code) == 3


def test_too_large_a_table_keeps_the_session(machine):
    code = "import pyarrow, os; blocks = []\nwhile True:\n    block = pyarrow.allocate_buffer(50 << 20); memoryview(block).cast('B')[:] = bytes(50 << 20); blocks.append(block)"
    result = machine.run(code, timeout=60)
    assert (result.status, result.state, result.error.name) == ("error", "kept", "ArrowMemoryError")
    assert value(machine, "del blocks, block; pyarrow.allocate_buffer(50 << 20).size >> 20") == 50


def test_javascript_is_there(machine):
    node = machine.run("const os = require('os'); [os.cpus().length, os.totalmem() / 2 ** 20]", language="js")
    assert node.result == "[ 1, 512 ]", node.error


@pytest.mark.docker
def test_the_user(machine):
    code = "import getpass, os, pathlib; getpass.getuser(), str(pathlib.Path.home()), os.getcwd(), os.stat('/home/user').st_uid == os.getuid()"
    assert value(machine, code) == ("user", "/home/user", "/session", True)
    assert machine.exec("whoami; echo ~; pwd").stdout.split() == ["user", "/home/user", "/session"]


@pytest.mark.docker
def test_programs_may_let_others_go_first(machine):
    nice = machine.exec("nice -n 5 nice")
    assert (nice.stdout, nice.stderr) == ("5\n", "")


@pytest.mark.docker
def test_its_name_leads_to_itself(machine):
    """Servers, and what computes in parallel, look for the address of the machine that way."""
    assert value(machine, "import socket; socket.gethostbyname(socket.gethostname())") == "127.0.0.1"


@pytest.mark.docker
def test_its_clock_counts_from_a_date(machine):
    """On every machine, so that deadlines stay what they are where the memory goes on."""
    if machine.engine == "docker":
        pytest.skip("containers have the machine's clock")
    assert -2 < value(machine, "import time; time.time() - time.monotonic()") - 1767225600 < 2


def test_joblib_shares_large_arrays(machine):
    code = """
import numpy, joblib
big = numpy.ones(10_000_000)
sum(joblib.Parallel(n_jobs=2)(joblib.delayed(numpy.sum)(big) for _ in range(2))).item()
"""
    assert value(machine, code) == 20e6


@pytest.mark.parametrize("way", ["rollback", "branch", "fork"])
def test_joblib_has_new_workers_where_its_own_are_gone(limpetd, way):
    """A copy of the interpreter neither waits for the workers of the one it was made from nor ends them."""
    if not limpetd.isolates:
        pytest.skip("joblib is in the image")
    code = "joblib.Parallel(n_jobs=2)(joblib.delayed(abs)(-number) for number in range(4))"
    with limpetd.client() as client, client.open(memory="512m", cpus=1, checkpoint="always") as session:
        assert value(session, f"import joblib; {code}") == [0, 1, 2, 3]
        if way == "rollback":
            assert session.run("import os; os._exit(1)").state == "rolled_back"
            copy = session
        else:
            copy = session.branch("b") if way == "branch" else session.fork()
        again = copy.run(code)
        assert (again.result, again.stderr) == ("[0, 1, 2, 3]", "")
        assert value(session, code) == [0, 1, 2, 3]
        if way == "fork":
            copy.close()


@pytest.mark.docker
def test_another_call_finds_nothing_of_it(limpetd, machine):
    """Of a call without a session these places are its own."""
    machine.run("open('/tmp/mine', 'w'), open('/home/user/mine', 'w')")
    with limpetd.client() as client:
        code = "import os; found = os.listdir('/tmp') + os.listdir(os.path.expanduser('~')); open('/tmp/a', 'w').write('x'); 'mine' in found"
        assert client.run(code).result == "False"
