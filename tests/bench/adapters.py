"""What the adapters to other programs add: a notebook cell, and tool calls of agents."""
import os
import subprocess
import tempfile
from pathlib import Path

from figures import Row, at_most
from jupyter_kernel import PACKAGES
from peers import environment
from programs import at, interleaved
from runner import Group

GROUP = Group("adapters", __doc__)
HERE = Path(__file__).resolve().parent
SOURCES = HERE.parent.parent / "clients" / "python" / "src"
JUPYTER = ("msgpack", "nh3")
LANGCHAIN = ("msgpack", "langchain", "langgraph")
MCP = ("msgpack", "mcp")
SERVE = ("msgpack", "h11", "httptools", "httpx", "msgspec", "prometheus-client", "python-multipart", "starlette", "uvicorn",
         "websockets")
E2B = (*SERVE, "e2b-code-interpreter")


class Driver:
    """Of adapters_driver.py, in a Python that has these packages; as a context manager it ends it."""

    def __init__(self, bench, kind, packages):
        python = environment(bench, (*PACKAGES, *packages))
        self._directory = tempfile.TemporaryDirectory(prefix="limpet-bench-")
        home = self._directory.name
        command = [python, "-W", "ignore", HERE / "adapters_driver.py", kind, bench.main.env["LIMPET_SOCKET"]]
        env = {**os.environ, "PYTHONPATH": str(SOURCES), "PYTHONDONTWRITEBYTECODE": "1", "LIMPET_AUTOSTART": "0",
               "IPYTHONDIR": f"{home}/ipython", "JUPYTER_RUNTIME_DIR": f"{home}/runtime",
               "JUPYTER_DATA_DIR": f"{home}/data", "LANGSMITH_TRACING": "false"}
        self._process = subprocess.Popen(command, env=env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         start_new_session=True)
        self._expect()

    def _expect(self):
        line = self._process.stdout.readline().strip()
        if not line:
            raise RuntimeError("the driver of the adapters ended")
        return line

    def seconds(self, which, count):
        self._process.stdin.write(f"{which} {count}\n")
        self._process.stdin.flush()
        return [float(took) for took in self._expect().split()]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()
        self._directory.cleanup()


class Calls:
    """A subject or floor whose block is that many calls."""

    def __init__(self, driver, which):
        self.driver, self.which = driver, which

    def block(self, count, gap=0.0):
        return self.driver.seconds(self.which, count)


def medians(bench, kind, packages, floor, subject):
    with Driver(bench, kind, packages) as driver:
        rounds = interleaved(Calls(driver, floor), Calls(driver, subject), bench.rounds, bench.args.calls // 20)
        return at(0.5, rounds)


@GROUP.case(
    Row("adapters.cell", "A notebook cell `x = 1` in the Limpet kernel through jupyter_client, until its reply and "
        "the idle that follows it, to the same in an ipykernel.", at_most(0.5)),
)
def cell(bench):
    return {"adapters.cell": medians(bench, "kernels", JUPYTER, "ipykernel", "limpet")}


@GROUP.case(
    Row("adapters.tool", "A call of the LangChain tool code_sandbox with `x = 1`, to Session.run of that code in the "
        "same session."),
)
def tool(bench):
    return {"adapters.tool": medians(bench, "tool", LANGCHAIN, "run", "tool")}


@GROUP.case(
    Row("adapters.mcp", "A call of the MCP tool run_python with `x = 1` over standard input and output, to a tool that does "
        "nothing of a server made with the official SDK.", at_most(1.3)),
)
def mcp(bench):
    return {"adapters.mcp": medians(bench, "mcp", MCP, "noop", "run_python")}


@GROUP.case(
    Row("adapters.mcp_http", "A call of the MCP tool run_python with `x = 1` at /mcp of `limpet serve`, to a tool that does "
        "nothing of an HTTP server made with the official SDK.", at_most(1.3)),
)
def mcp_http(bench):
    return {"adapters.mcp_http": medians(bench, "mcp_http", (*MCP, *SERVE[1:]), "noop", "run_python")}


@GROUP.case(
    Row("adapters.e2b", "A call of `run_code(\"x = 1\")` of E2B's Python client through `limpet serve`, to the same call where "
        "a server of the same kind answers with a fixed line.", at_most(2.0)),
)
def e2b(bench):
    return {"adapters.e2b": medians(bench, "e2b", E2B, "hello", "run_code")}


@GROUP.case(
    Row("adapters.rest", "POST /v1/sessions/SESSION/run with `x = 1` at `limpet serve`, over a connection that stays, to "
        "Session.run of that code and a GET /health there.", at_most(1.3)),
)
def rest(bench):
    return {"adapters.rest": medians(bench, "rest", SERVE, "both", "run")}


@GROUP.case(
    Row("adapters.sse", "Until what a cell prints comes as the first event of that request, to until it comes to on_stdout "
        "of the Python client.", at_most(2.0)),
)
def sse(bench):
    return {"adapters.sse": medians(bench, "rest", SERVE, "stdout", "sse")}
