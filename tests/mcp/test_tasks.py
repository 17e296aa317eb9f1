"""Calls that take long are tasks for clients that have declared them, by hand in the way of 2026-07-28."""

import json
import subprocess

import anyio
import mcp_types as types
import pytest

from tests.support.gateway import Gateway, until

from .conftest import arguments, environment
from .test_http import TASKS, body, over_http, running

ABLE = {"extensions": {TASKS: {}}, "elicitation": {"form": {}}}
WAIT = "import pathlib, time\nn = globals().get('n', 0) + 1\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)\nn"


@pytest.fixture(scope="module")
def gateway(limpetd, tmp_path_factory):
    gateway = Gateway(limpetd.socket, tmp_path_factory.mktemp("gateway"), "--rate-limit-max", "0", "--max-sessions", "100")
    gateway.anna, gateway.ben = gateway.key("create", "anna"), gateway.key("create", "ben")
    gateway.start()
    yield gateway
    gateway.stop()


class Client:
    """One who asks by hand, in a session."""

    def __init__(self, http, name):
        self.http, self.path, self.session = http, f"/mcp?session={name}", f"/v1/sessions/{name}"

    def send(self, request):
        with self.http.stream("POST", self.path, **request) as response:
            return response.read() and response.json()

    def run(self, code, capabilities=ABLE):
        return self.send(running(code, capabilities))["result"]

    def result(self, code):
        """Of code, whether it takes long or not."""
        said = self.run(code)
        return said if said["resultType"] == "complete" else self.until(said, "completed")["result"]

    def ask(self, method, task, **more):
        return self.send(body(f"tasks/{method}", {"taskId": task["taskId"], **more}, ABLE))

    def until(self, task, status):
        return until(lambda: (said := self.ask("get", task)["result"])["status"] == status and said, f"the task is {status}")


@pytest.fixture
def anna(gateway, name):
    with gateway.client(gateway.anna) as http:
        client = Client(http, name)
        yield client
        http.delete(client.session)


def test_what_is_quick_is_no_task(anna):
    """On a machine that is busy nothing may be quick for a while."""
    done = until(lambda: (said := anna.run("1 + 1"))["resultType"] == "complete" and said, "it is no task")
    assert done["structuredContent"]["result"] == "2"


def test_what_takes_long_is_a_task(anna):
    task = anna.run(WAIT)
    assert (task["resultType"], task["status"]) == ("task", "working") and "structuredContent" not in task
    assert anna.ask("get", task)["result"]["status"] == "working"
    anna.http.put(f"{anna.session}/files/go", content=b"")
    result = anna.until(task, "completed")["result"]
    assert (result["structuredContent"]["result"], result["structuredContent"]["execution_count"]) == ("1", 1)


def test_code_that_fails_is_a_task_that_has_ended(anna):
    task = anna.run(WAIT + "\n1/0")
    anna.http.put(f"{anna.session}/files/go", content=b"")
    assert anna.until(task, "completed")["result"]["isError"] is True


def test_a_task_that_is_cancelled_is_interrupted(anna):
    anna.run("x = 1")
    task = anna.run("while True: pass")
    assert anna.ask("cancel", task)["result"]["resultType"] == "complete"
    anna.until(task, "cancelled")
    assert anna.result("x")["structuredContent"]["result"] == "1"
    assert anna.ask("cancel", task)["result"]["resultType"] == "complete"  # again


def test_a_task_asks(anna):
    """At once, and not when it has taken long."""
    task = anna.run("input('Name? '), input('Age? ')")
    assert task["resultType"] == "task"
    for number, line in enumerate(("Ada", "36"), 1):
        asked = until(lambda: f"question-{number}" in (said := anna.ask("get", task)["result"]).get("inputRequests", ()) and said, "it asks")
        assert asked["status"] == "input_required"
        answer = {f"question-{number}": {"action": "accept", "content": {"line": line}}}
        anna.ask("update", task, inputResponses=answer)
    assert anna.until(task, "completed")["result"]["structuredContent"]["result"] == "('Ada', '36')"


@pytest.mark.parametrize("answer", [{"action": "decline"}, {"nonsense": 1}, 5])
def test_an_answer_that_is_none(anna, answer):
    task = anna.run("input()")
    anna.until(task, "input_required")
    anna.ask("update", task, inputResponses={"other": answer})
    anna.ask("update", task, inputResponses={"question-1": answer})
    assert anna.until(task, "completed")["result"]["structuredContent"]["error"]["name"] == "EOFError"


def test_the_task_of_another_is_none(anna, gateway, name):
    task = anna.run(WAIT)
    with gateway.client(gateway.ben) as http:
        ben = Client(http, name)
        for method, more in (("get", {}), ("cancel", {}), ("update", {"inputResponses": {}})):
            assert ben.ask(method, task, **more)["error"]["code"] == -32602
    assert anna.ask("get", task)["result"]["status"] == "working"
    anna.ask("cancel", task)


def test_a_client_that_has_not_declared_them(anna, name):
    assert anna.run("1", {})["resultType"] == "complete"
    refused = anna.send(body("tasks/get", {"taskId": "x"}))
    assert refused["error"]["code"] == -32021 and TASKS in refused["error"]["data"]["requiredCapabilities"]["extensions"]


def test_a_header_that_names_another_task(anna):
    request = body("tasks/get", {"taskId": "x"}, ABLE)
    request["headers"]["Mcp-Name"] = "y"
    assert anna.send(request)["error"]["code"] == -32020


@pytest.mark.anyio
async def test_the_protocol_with_a_handshake_has_none(gateway, name):
    async with over_http(gateway, gateway.anna, name, "legacy") as server:
        with anyio.fail_after(60), pytest.raises(Exception, match="Method not found"):
            request = types.GetTaskRequest(params=types.GetTaskRequestParams(task_id="x"))
            await server.client.session.send_request(request, types.EmptyResult)


def test_tasks_over_standard_input(raw_2026):
    """The same: a call is answered with a task, and nothing of its output is told after that."""
    task = raw_2026.ask("tools/call", name="run_python", arguments={"code": "import time\nfor i in range(30): print(i, flush=True); time.sleep(0.1)"}, token=7)
    assert task["resultType"] == "task"
    done = until(lambda: (said := raw_2026.ask("tasks/get", taskId=task["taskId"]))["status"] == "completed" and said, "it ends")
    assert done["result"]["structuredContent"]["stdout"].endswith("29\n")
    assert raw_2026.progress_after_answers == 0


class Raw:
    """The server as a process, spoken to by hand."""

    def __init__(self, arguments):
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(), text=True)
        self.answered, self.progress_after_answers = False, 0

    def ask(self, method, token=None, **params):
        message = body(method, params, ABLE, **({} if token is None else {"progressToken": token}))["json"]
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        while "id" not in (answer := json.loads(self.process.stdout.readline())):
            self.progress_after_answers += self.answered
        self.answered = True
        return answer["result"]

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def raw_2026(limpetd, preloaded):
    server = Raw(preloaded.command(*arguments(limpetd)))
    yield server
    server.end()
