"""Holds an adapter and what it is held against; answers each line `WHICH COUNT` with the seconds of that many calls.

usage: adapters_driver.py kernels|tool|mcp|mcp_http|rest|e2b|values SOCKET

    kernels   limpet, ipykernel: a notebook cell from the request until the reply and the idle that follows it
    tool      tool, run: code_sandbox as an agent calls it, Session.run of the same session
    mcp       run_python, noop: tools of two MCP servers over stdio, `limpet mcp` and one made with the SDK
    mcp_http  the same over HTTP, `limpet serve` and a server made with the SDK
    e2b       run_code, hello: E2B's client at `limpet serve`, and at a server that says the same whatever it is asked
    rest      run, both: POST .../run of `limpet serve` over one connection, Session.run and then GET /health there;
              sse, stdout: until what is printed comes, as the first event at a socket and to on_stdout
    values    set, value: a NumPy array of 100 MB into a session, and out of it

Its first line is "ready".
"""
import contextlib
import json
import os
import socket as socketlib
import subprocess
import sys
import time

import limpet

LINE = "x = 1"
PRINT = "print(1, flush=True)"
NAME = "bench-tool"
TOOL = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("noop")
@server.tool()
def noop(code: str) -> str:
    return ""
"""
NOOP = TOOL + "server.run()"

LISTEN = """
import asyncio, socket, uvicorn
listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
listening.bind(("127.0.0.1", 0))
listening.listen()
print(f"listening on http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
config = uvicorn.Config(app, http="httptools", log_config=None, access_log=False, timeout_keep_alive=75)
asyncio.run(uvicorn.Server(config).serve([listening]))
"""
NOOP_HTTP = TOOL + "app = server.streamable_http_app()" + LISTEN

HELLO = """
LINE = b'{"type":"number_of_executions","execution_count":1}\\n'
HEADERS = [(b"content-type", b"application/x-ndjson"), (b"content-length", str(len(LINE)).encode())]
async def app(scope, receive, send):
    assert scope["type"] == "http"
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": LINE})
""" + LISTEN


def timed(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


@contextlib.contextmanager
def kernel(name):
    """One cell in it, as a function."""
    from jupyter_client.manager import start_new_kernel
    from jupyter_driver import run

    manager, client = start_new_kernel(kernel_name=name, stderr=subprocess.DEVNULL)
    try:
        yield lambda: run(client, LINE)
    finally:
        client.stop_channels()
        manager.shutdown_kernel()


@contextlib.contextmanager
def kernels(socket):
    install = [sys.executable, "-m", "limpet.jupyter", "install", "--user", "--address", socket]
    subprocess.run(install, check=True, stdout=subprocess.DEVNULL)
    with kernel("limpet") as ours, kernel("python3") as theirs:
        yield {"limpet": ours, "ipykernel": theirs}


@contextlib.contextmanager
def tool(socket):
    from limpet.langgraph import code_sandbox

    call = {"type": "tool_call", "id": "1", "name": "code_sandbox", "args": {"code": LINE}}
    config = {"configurable": {"thread_id": NAME}}
    with limpet.Client(socket, autostart=False) as client, client.open(NAME) as session:
        sandbox = code_sandbox(client=client)
        yield {"tool": lambda: timed(lambda: sandbox.invoke(call, config)),
               "run": lambda: timed(lambda: session.run(LINE))}


@contextlib.contextmanager
def mcp(socket):
    """Both servers are started by the client."""
    from mcp import StdioServerParameters, stdio_client

    def started(*command):
        return stdio_client(StdioServerParameters(command=sys.executable, args=["-W", "ignore", *command], env=dict(os.environ)))

    with mcp_tools(started("-m", "limpet.mcp", "--address", socket), started("-c", NOOP)) as calls:
        yield calls


@contextlib.contextmanager
def mcp_http(socket):
    import tempfile

    from mcp.client.streamable_http import streamable_http_client

    with (tempfile.TemporaryDirectory() as state,
          listening("-m", "limpet.serve", "--port", "0", "--address", socket, "--state-dir", state) as ours,
          listening("-c", NOOP_HTTP) as theirs,
          mcp_tools(*(streamable_http_client(f"{url}/mcp") for url in (ours, theirs))) as calls):
        yield calls


@contextlib.contextmanager
def mcp_tools(*transports):
    """Of two servers in the way of the newest protocol, from clients of the SDK, which holds them in an event loop of its own."""
    from anyio.from_thread import start_blocking_portal
    from mcp import Client

    async def call(client, tool):
        start = time.perf_counter()
        result = await client.call_tool(tool, {"code": LINE})
        assert not result.is_error
        return time.perf_counter() - start

    with contextlib.ExitStack() as stack:
        portal = stack.enter_context(start_blocking_portal())
        ours, theirs = (stack.enter_context(portal.wrap_async_context_manager(Client(each))) for each in transports)
        for client in (ours, theirs):
            portal.call(client.list_tools)
        yield {"run_python": lambda: portal.call(call, ours, "run_python"), "noop": lambda: portal.call(call, theirs, "noop")}


@contextlib.contextmanager
def listening(*command):
    """A server, as its address."""
    environment = os.environ | {"RATE_LIMIT_MAX": "0"}
    server = subprocess.Popen([sys.executable, "-W", "ignore", *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True, env=environment)
    try:
        yield server.stdout.readline().split()[-1]
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


@contextlib.contextmanager
def e2b(socket):
    """One connection each, which is kept."""
    import tempfile

    from e2b_code_interpreter import Sandbox

    with (tempfile.TemporaryDirectory() as state,
          listening("-m", "limpet.serve", "--port", "0", "--address", socket, "--state-dir", state) as ours,
          listening("-c", HELLO) as theirs):
        made = Sandbox.create(api_key="none", api_url=ours, sandbox_url=ours)
        told = type(made.connection_config)(api_key="none", api_url=theirs, sandbox_url=theirs)
        hello = Sandbox(sandbox_id=made.sandbox_id, envd_version=made._envd_version, envd_access_token=made._envd_access_token,
                        sandbox_domain=None, connection_config=told)
        try:
            yield {"run_code": lambda: timed(lambda: made.run_code(LINE)), "hello": lambda: timed(lambda: hello.run_code(LINE))}
        finally:
            made.kill()


@contextlib.contextmanager
def gateway(socket, directory):
    """A client of one, with a connection that stays."""
    import httpx

    command = [sys.executable, "-W", "ignore", "-m", "limpet.serve", "--port", "0", "--address", socket, "--state-dir", directory,
               "--rate-limit-max", "0", "--audit-log", f"{directory}/audit"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        port = int(process.stdout.readline().rpartition(":")[2])
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as http:
            yield http
        process.terminate()


def connected(http):
    """A socket of its own to the same gateway: a library for HTTP takes longer to hand out the first byte than it has taken to come."""
    connection = socketlib.create_connection(("127.0.0.1", http.base_url.port))
    connection.setsockopt(socketlib.IPPROTO_TCP, socketlib.TCP_NODELAY, 1)
    return connection


def request(path, said, *heads):
    """A POST of this JSON, as bytes."""
    body = json.dumps(said).encode()
    lines = (f"POST {path} HTTP/1.1".encode(), b"Host: localhost", b"Content-Type: application/json",
             b"Content-Length: %d" % len(body), *heads)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


@contextlib.contextmanager
def rest(socket):
    import tempfile

    with (tempfile.TemporaryDirectory() as directory, limpet.Client(socket, autostart=False) as client, client.open(NAME) as session,
          gateway(socket, directory) as http, connected(http) as connection):
        path = f"/v1/sessions/{NAME}/run"
        asked = request(path, {"code": PRINT}, b"Accept: text/event-stream")

        def run():
            return http.post(path, json={"code": LINE}).json()

        def both():
            session.run(LINE)
            http.get("/health").json()

        def sse():
            start, read = time.perf_counter(), b""
            connection.sendall(asked)
            while b"event: output" not in read:
                read += connection.recv(1 << 16)
            took = time.perf_counter() - start
            while not read.endswith(b"\r\n0\r\n\r\n"):
                read += connection.recv(1 << 16)
            return took

        def stdout():
            start, heard = time.perf_counter(), []
            session.run(PRINT, on_stdout=lambda text: heard.append(time.perf_counter()))
            return heard[0] - start

        assert run()["status"] == "ok"
        yield {"run": lambda: timed(run), "both": lambda: timed(both), "sse": sse, "stdout": stdout}


@contextlib.contextmanager
def values(socket):
    import numpy

    array = numpy.random.default_rng(1).random(12_500_000)
    with limpet.Client(socket, autostart=False) as client, client.open(NAME, memory="1g", timeout=60) as session:
        session.set("array", array)
        yield {"set": lambda: timed(lambda: session.set("array", array)),
               "value": lambda: timed(lambda: session.value("array"))}


def main():
    kind, socket = sys.argv[1:]
    with {"kernels": kernels, "tool": tool, "mcp": mcp, "mcp_http": mcp_http, "rest": rest, "e2b": e2b, "values": values}[kind](socket) as calls:
        print("ready", flush=True)
        for line in sys.stdin:
            which, count = line.split()
            print(*(calls[which]() for _ in range(int(count))), flush=True)


if __name__ == "__main__":
    main()
