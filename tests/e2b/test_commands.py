"""Commands and terminals, with E2B's own clients."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from e2b import AsyncSandbox, CommandExitException, InvalidArgumentException, NotFoundException, PtySize, TimeoutException

from .conftest import until


def test_a_command_gives_output_and_status(shared):
    result = shared.commands.run("echo out; echo err >&2")
    assert (result.stdout, result.stderr, result.exit_code, result.error) == ("out\n", "err\n", 0, None)


def test_a_failing_command_raises_with_what_it_wrote(shared):
    with pytest.raises(CommandExitException) as failed:
        shared.commands.run("echo some; exit 7")
    assert (failed.value.exit_code, failed.value.stdout) == (7, "some\n")


def test_environment_directory_and_home(shared):
    shared.files.make_dir("sub dir")
    result = shared.commands.run('echo "$COLOUR" "$(basename "$PWD")"', envs={"COLOUR": "red"}, cwd="sub dir")
    assert result.stdout == "red sub dir\n"
    assert shared.commands.run('cd; pwd').stdout == shared.commands.run("pwd").stdout


def test_output_streams(shared):
    seen, first = [], threading.Event()

    def on_stdout(text):
        seen.append(text)
        first.set()

    handle = shared.commands.run("echo begun; while [ ! -e go-on ]; do sleep 0.02; done; echo ended", background=True)
    waiting = threading.Thread(target=lambda: handle.wait(on_stdout=on_stdout))
    waiting.start()
    assert first.wait(60) and seen == ["begun\n"]
    shared.files.write("go-on", "")
    waiting.join(60)
    assert "".join(seen) == "begun\nended\n"
    shared.files.remove("go-on")


def test_short_commands_beside_each_other(shared):
    def echo(number):
        return [shared.commands.run(f"echo {number}.{each}").stdout for each in range(10)]

    with ThreadPoolExecutor(20) as pool:
        said = list(pool.map(echo, range(20)))
    assert said == [[f"{number}.{each}\n" for each in range(10)] for number in range(20)]


def test_bytes_that_are_no_text_and_much_output(shared):
    result = shared.commands.run("printf 'a\\xffb'; head -c 3000000 /dev/zero | tr '\\0' x")
    assert result.stdout[:3] == "a\ufffdb" and result.stdout.count("x") == 3_000_000


def test_input(shared):
    handle = shared.commands.run("cat; echo end", background=True, stdin=True)
    shared.commands.send_stdin(handle.pid, "first ")
    handle.send_stdin("second ")
    shared.commands.close_stdin(handle.pid)
    assert handle.wait().stdout == "first second end\n"


def test_without_input_a_command_reads_nothing(shared):
    assert shared.commands.run("cat; echo end", timeout=60).stdout == "end\n"


def test_a_stream_of_input(shared, where):
    async def stream():
        sandbox = await AsyncSandbox.connect(shared.sandbox_id, **where)
        handle = await sandbox.commands.run("cat", background=True, stdin=True)
        async with sandbox.commands.stream_input(handle.pid) as stdin:
            for number in range(50):
                await stdin.send(f"{number} ")
        await sandbox.commands.close_stdin(handle.pid)
        return (await handle.wait()).stdout

    assert asyncio.run(stream()) == "".join(f"{number} " for number in range(50))


def test_listed_connected_and_killed(shared):
    handle = shared.commands.run("echo $$; exec sleep 600", background=True)
    running = next(each for each in shared.commands.list() if each.pid == handle.pid)
    assert running.cmd == "/bin/bash" and running.args[-1].startswith("echo")
    again = shared.commands.connect(handle.pid)
    assert again.pid == handle.pid
    assert shared.commands.kill(handle.pid) is True
    with pytest.raises(CommandExitException) as ended:
        again.wait()
    assert ended.value.exit_code == -1 and "killed" in ended.value.error
    assert shared.commands.kill(handle.pid) is False
    with pytest.raises(NotFoundException, match="not found"):
        shared.commands.connect(handle.pid)
    with pytest.raises(NotFoundException, match="not found"):
        shared.commands.send_stdin(handle.pid, "x")


def test_a_time_limit_ends_the_command_also_when_nobody_waits(shared):
    begun = time.monotonic()
    with pytest.raises(TimeoutException):
        shared.commands.run("sleep 601", timeout=1)
    assert time.monotonic() - begun < 60
    shared.commands.run("sleep 602", background=True, timeout=1).disconnect()
    until(lambda: not any("sleep 60" in " ".join(each.args) for each in shared.commands.list()))


def test_who_leaves_does_not_end_the_command(shared):
    handle = shared.commands.run("sleep 603", background=True, timeout=0)
    handle.disconnect()
    assert handle.pid in [each.pid for each in shared.commands.list()]
    assert shared.commands.kill(handle.pid)


def test_root_is_refused_in_a_sentence(shared):
    with pytest.raises(InvalidArgumentException, match="nobody in it is root"):
        shared.commands.run("id", user="root")
    assert shared.commands.run("echo me", user="user").stdout == "me\n"


def test_a_directory_that_is_not_there(shared):
    with pytest.raises(InvalidArgumentException, match="nowhere"):
        shared.commands.run("pwd", cwd="/nowhere")


def test_a_terminal(shared, where):
    async def type_into_it():
        sandbox = await AsyncSandbox.connect(shared.sandbox_id, **where)
        seen = bytearray()

        async def shows(text):
            for _ in range(3000):
                if text in seen:
                    return True
                await asyncio.sleep(0.02)
            raise AssertionError(bytes(seen))

        terminal = await sandbox.pty.create(PtySize(rows=30, cols=100), on_data=seen.extend, envs={"PS1": "ready> "})
        await sandbox.pty.send_stdin(terminal.pid, b"PS1='ready''> '; stty size\n")
        await shows(b"30 100")
        await shows(b"ready> ")
        await sandbox.pty.resize(terminal.pid, PtySize(rows=40, cols=120))
        await sandbox.pty.send_stdin(terminal.pid, b"stty size\n")
        await shows(b"40 120")
        again = bytearray()
        other = await sandbox.pty.connect(terminal.pid, on_data=again.extend)
        await sandbox.pty.send_stdin(terminal.pid, b"exit\n")
        assert (await terminal.wait()).exit_code == 0
        assert (await other.wait()).exit_code == 0
        assert b"exit" in again

    asyncio.run(type_into_it())


def test_commands_run_beside_code(shared):
    shared.run_code("import os")
    running = threading.Thread(
        target=shared.run_code, args=("import time\nwhile not os.path.exists('done'): time.sleep(0.02)",)
    )
    running.start()
    assert shared.commands.run("touch done; echo beside").stdout == "beside\n"
    running.join(60)
    assert not running.is_alive()
    shared.files.remove("done")
