"""Top-level await on the one loop of the session."""

import socket


def test_value_of_await(session):
    assert session.run("import asyncio\nawait asyncio.sleep(0, 'v')").result == "'v'"


def test_await_in_both_halves(session):
    assert (
        session.run("import asyncio\na = await asyncio.sleep(0, 20)\nawait asyncio.sleep(0, a + 1)").result
        == "21"
    )


def test_async_for_and_with(session):
    code = """
import contextlib
@contextlib.asynccontextmanager
async def manager():
    yield 'm'
async def numbers():
    for i in range(3):
        yield i
async with manager() as m:
    print(m)
async for i in numbers():
    print(i)
[i async for i in numbers()]
"""
    reply = session.run(code)
    assert reply.stdout == "m\n0\n1\n2\n" and reply.result == "[0, 1, 2]"


def test_tasks_go_on_in_later_cells(session):
    session.run(
        (
            "import asyncio\n"
            "log = []\n"
            "async def tick():\n"
            "    for i in range(3):\n"
            "        log.append(i)\n"
            "        await asyncio.sleep(0)"
        )
    )
    session.run("task = asyncio.create_task(tick())\nawait asyncio.sleep(0)")
    assert session.run("await task\nlog").result == "[0, 1, 2]"


def test_a_task_started_before_the_await(session):
    code = "import asyncio\nasync def f(): return 6\ntask = asyncio.create_task(f())\nawait task"
    assert session.run(code).result == "6"


def test_asyncio_is_not_imported_without_need(session):
    assert session.run("import sys; 'asyncio' in sys.modules").result == "False"


def test_asyncio_run_works_beside_it(session):
    code = "import asyncio\nasync def f(): return 5\nasyncio.run(f())"
    assert session.run(code).result == "5"
    assert session.run("await f()").result == "5"
    assert session.run(code).result == "5"


def test_error_shows_user_frames_only(session):
    session.run("async def f():\n    return 1 / 0")
    text = session.run("await f()").error["traceback"]
    assert text.splitlines()[1].startswith('  File "<cell 2>", line 1')
    assert "asyncio" not in text and "limpet" not in text


def interrupted(session, code):
    session.start(f"import asyncio\nprint('on', flush=True)\n{code}")
    session.wait_output("on")
    session.interrupt()
    reply = session.finish()
    assert reply.error["name"] == "KeyboardInterrupt"
    assert "<cell" in reply.error["traceback"]
    assert session.run("await asyncio.sleep(0, 'usable')").result == "'usable'"


def test_interrupt_of_a_wait(session):
    interrupted(session, "await asyncio.sleep(60)")


def test_interrupt_of_a_loop_in_a_coroutine(session):
    interrupted(session, "async def f():\n    while True: pass\nawait f()")


def test_interrupt_that_hits_another_task_cancels_the_cell(session):
    code = (
        "async def spin():\n"
        "    await asyncio.sleep(0.01)\n"
        "    print('spin', flush=True)\n"
        "    while True: pass\n"
    )
    session.start(
        (
            f"import asyncio\n"
            f"{code}done = []\n"
            f"t = asyncio.create_task(spin())\n"
            f"try:\n"
            f"    await asyncio.sleep(60)\n"
            f"finally: done.append(1)"
        )
    )
    session.wait_output("spin")
    session.interrupt()
    assert session.finish().error["name"] == "KeyboardInterrupt"
    assert session.run("await asyncio.sleep(0, done)").result == "[1]"


def test_cleanup_runs_when_interrupted(session):
    session.start(
        (
            "import asyncio\n"
            "try:\n"
            "    print('on', flush=True)\n"
            "    await asyncio.sleep(60)\n"
            "finally:\n"
            "    cleaned = True"
        )
    )
    session.wait_output("on")
    session.interrupt_wait()
    assert session.finish().error["name"] == "KeyboardInterrupt"
    assert session.run("cleaned").result == "True"


def test_cancelled_error_of_the_user(session):
    assert session.run("import asyncio\nraise asyncio.CancelledError").error["name"] == "CancelledError"
    assert (
        session.run("await asyncio.sleep(0)\nraise asyncio.CancelledError").error["name"] == "CancelledError"
    )


def test_a_closed_loop_is_replaced(session):
    session.run(
        (
            "import asyncio\n"
            "loop = None\n"
            "async def f():\n"
            "    global loop\n"
            "    loop = asyncio.get_running_loop()\n"
            "await f()"
        )
    )
    session.run("loop.close()")
    assert session.run("await asyncio.sleep(0, 3)").result == "3"


def test_exit_in_a_coroutine(session):
    assert session.run("import sys\nasync def f(): sys.exit(2)\nawait f()").error["name"] == "SystemExit"
    assert session.run("import asyncio\nawait asyncio.sleep(0, 1)").result == "1"


TASK = "import asyncio\nasync def f():\n    await asyncio.sleep(0.1)\n    print('later', flush=True)\n    return 9\n"


def test_a_task_of_a_cell_without_await_goes_on_between_cells(session):
    session.run(f"{TASK}task = asyncio.create_task(f())")
    session.wait_output("later")
    assert session.run("task.result()").result == "9"


def test_a_task_that_goes_on_between_cells_does_so_in_a_copy(session):
    session.run(f"{TASK}event = asyncio.Event()\nasync def g():\n    await event.wait()\n    await f()\ntask = asyncio.create_task(g())")
    copy = session.checkpoint().restore()
    copy.run("event.set()")
    copy.wait_output("later")
    assert session.run("task.done()").result == "False"


def test_a_server_of_a_cell_answers_between_cells(session):
    session.run("import asyncio\nasync def say(reader, writer):\n    writer.write(b'hello'); writer.close()")
    port = session.value("server = await asyncio.start_server(say, '127.0.0.1', 0)\nserver.sockets[0].getsockname()[1]")
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(60)
        assert client.recv(10) == b"hello"


def test_a_task_that_does_not_let_go_is_interrupted_for_the_next_cell(session):
    session.run(TASK + "async def spin():\n    await f()\n    while True: pass\ntask = asyncio.create_task(spin())")
    session.wait_output("later")
    session.start("6 * 7")
    session.interrupt()
    reply = session.finish()
    assert reply.result == "42" and "KeyboardInterrupt" in reply.stderr


def test_one_loop_for_all_that_ask_for_it(session):
    session.run("import asyncio\nasync def loop(): return asyncio.get_running_loop()")
    assert session.run("asyncio.get_event_loop() is await loop()").result == "True"
    assert session.run("asyncio.run(loop()) is asyncio.get_event_loop()").result == "False"
    session.run("run = asyncio.get_event_loop().run_until_complete(loop())")
    assert session.run("run is await loop()").result == "True"
    session.run("asyncio.get_event_loop().close()")
    assert session.run("asyncio.get_event_loop() is await loop()").result == "True"


def test_a_forked_child_has_a_loop_of_its_own(session):
    session.run("import asyncio, os\nloop = asyncio.get_event_loop()")
    reply = session.run("if os.fork() == 0:\n    print(asyncio.get_event_loop() is loop, flush=True)\n    os._exit(0)\nos.wait();")
    assert reply.stdout == "False\n"


def test_context_variables_are_those_of_all_cells(session):
    session.run("import asyncio, contextvars\nvar = contextvars.ContextVar('var', default=0)\nfirst = var.set(1)")
    session.run("await asyncio.sleep(0)\nsecond = var.set(var.get() + 1)")
    assert session.run("var.get()").result == "2"
    copy = session.checkpoint().restore()
    assert copy.run("var.reset(second); var.get()").result == "1"
    assert copy.run("await asyncio.sleep(0)\nvar.reset(first); var.get()").result == "0"
