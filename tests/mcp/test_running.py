"""Tools that run something: results, figures, artifacts, and what is said of the variables."""

import asyncio
import base64
import dataclasses
import hashlib
import pathlib

import limpet
import pytest
from limpet._adapters import cells
from limpet._adapters.telling import Limits
from mcp import MCPError

from tests.conformance import extension

pytestmark = pytest.mark.anyio

TOOLS = "run_python exec read_file write_file list_files install checkpoint rollback branch try_each".split()
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
FIGURE = f"class Figure:\n    def _repr_png_(self): return {PNG!r}\nFigure()"


async def test_tools_are_listed_with_schemas(server):
    listed = (await server.client.list_tools()).tools
    assert [tool.name for tool in listed] == TOOLS
    for tool in listed:
        assert tool.input_schema["type"] == "object" and tool.input_schema["additionalProperties"] is False
    assert [tool.name for tool in listed if tool.annotations.read_only_hint] == ["read_file", "list_files"]


async def test_a_session(connected, mode):
    """What a client sees in the way of each protocol; what tools do is tested in one of them."""
    async with connected(mode=mode) as server:
        first = await server.run("x = 6 * 7\nprint('hello')\nx")
        assert not first.failed and "hello" in first.text and "42" in first.text
        assert (first.data["stdout"], first.data["result"], first.data["state"]) == ("hello\n", "42", "kept")
        assert (await server.run("x + 1")).data["result"] == "43"
        (image,) = (await server.run(FIGURE)).of("image")
        assert (image.mime_type, base64.b64decode(image.data)) == ("image/png", PNG)
        (link,) = (await server.run("open('artifacts/a.txt', 'w').write('hello')")).of("resource_link")
        assert (await server.client.read_resource(link.uri)).contents[0].text == "hello"


def test_what_the_conformance_suite_asks_for_can_be_added():
    """The suite itself runs with all tests only."""
    assert extension.make(lambda context: None, Limits(1, 1), {}, set()).get_request_handler("prompts/get")


async def test_the_structured_result_is_the_record(server):
    done = await server.run("1/0")
    fields = {each.name for each in dataclasses.fields(limpet.Result)} - {"displays", "restored", "between", "memory"}
    assert set(done.data) == fields | {"note", "omitted"} and done.data["omitted"] == {}
    assert done.data["error"]["traceback"].endswith("ZeroDivisionError: division by zero\n")
    tried = await server.call("try_each", codes=["1"])
    assert set(tried.data["candidates"][0]) == set(done.data) | {"branch"}


async def test_an_exception_is_an_error_of_the_tool(server):
    failed = await server.run("y = 1\n1/0")
    assert failed.failed and "ZeroDivisionError" in failed.text
    assert (failed.data["status"], failed.data["error"]["name"]) == ("error", "ZeroDivisionError")
    assert (await server.run("y")).data["result"] == "1"


async def test_what_a_model_writes_runs_and_what_it_reads_is_short(server):
    done = await server.run("```python\n!echo shell\nprint('one\\rtwo')\nfor _ in range(90): print('same')\n```")
    assert "stdout:\nshell\ntwo\nsame\n[the line above 89 more times]" in done.text
    assert done.data["stdout"].startswith("shell\none\rtwo\nsame\nsame\nsame\nsame\n")
    prose = await server.run("Let me look at the data first.")
    assert prose.failed and prose.text.endswith(cells.NO_PYTHON) and prose.data["error"]["name"] == "SyntaxError"


async def test_requests_at_once_run_in_their_order(server):
    codes = ["value = 1", "import time; time.sleep(0.02); value += 1; value", "value *= 10; value"]
    done = await asyncio.gather(*map(server.run, codes))
    assert [one.data["result"] for one in done] == [None, "2", "20"]


async def test_what_ends_later_is_told_with_the_next_result(server):
    await server.run("import threading\ngo = threading.Event()\ndef late():\n    go.wait(); print('late'); 1 / 0")
    await server.run("threading.Thread(target=late).start(); threading.Timer(0.2, go.set).start()")
    told = []
    while not any("ZeroDivisionError" in one.text for one in told):
        told.append(await server.run("import time; time.sleep(0.05)"))
    assert "late" in "".join(one.text for one in told)


async def test_no_more_figures_than_allowed(connected):
    async with connected("--max-images", "0") as server:
        shown = await server.run(FIGURE)
        assert not shown.of("image") and "1 more figure is not shown" in shown.text


async def test_artifacts_are_links(server):
    made = await server.run("open('artifacts/a b.txt', 'w').write('hello')")
    (link,) = made.of("resource_link")
    assert (link.name, link.uri, link.size) == ("a b.txt", "limpet://artifacts/a%20b.txt", 5)
    ((path, place),) = made.data["artifacts"].items()
    assert path.endswith("/artifacts/a b.txt") and pathlib.Path(place).read_text() == "hello"
    digest = hashlib.sha256(b"hello").hexdigest()
    assert made.data["artifact_info"] == {path: {"size": 5, "mime_type": "text/plain", "sha256": digest}}
    (content,) = (await server.client.read_resource(link.uri)).contents
    assert content.text == "hello"


async def test_a_crash_says_where_the_variables_are(connected):
    async with connected("--checkpoint", "always") as server:
        await server.run("x = 1")
        crashed = await server.run("x = 2\nimport os; os.abort()")
        assert crashed.failed and "STATE ROLLED BACK" in crashed.text
        assert (crashed.data["status"], crashed.data["state"]) == ("crashed", "rolled_back")
        assert crashed.data["note"] in crashed.text
        assert crashed.data["rolled_back_to"]["execution_count"] == 1 and crashed.data["usage"]["peak_memory"] > 0
        assert (await server.run("x")).data["result"] == "1"


async def test_a_crash_without_checkpoints_says_that_they_are_lost(connected):
    async with connected("--checkpoint", "off") as server:
        await server.run("x = 1")
        crashed = await server.run("import os; os._exit(3)")
        assert crashed.failed and "STATE LOST" in crashed.text
        assert (crashed.data["state"], crashed.data["exit_code"]) == ("lost", 3)
        assert (await server.run("x")).data["error"]["name"] == "NameError"


async def test_a_time_limit(connected):
    async with connected("--timeout", "60") as server:
        late = await server.run("while True: pass", timeout=0.3)
        assert late.failed and late.data["status"] == "timeout"
        assert "The argument `timeout` gives a call more seconds." in late.text
        assert (await server.run("1")).data["result"] == "1"


async def test_on_error_rollback(server):
    await server.run("x = 1")
    assert (await server.run("x = 2\n1/0", on_error="rollback")).data["state"] == "rolled_back"
    assert (await server.run("x")).data["result"] == "1"


async def test_commands(server):
    done = await server.call("exec", command="echo out; echo err >&2; exit 3")
    assert done.failed and (done.data["stdout"], done.data["stderr"], done.data["exit_code"]) == ("out\n", "err\n", 3)
    assert (await server.call("exec", command="true")).failed is False


async def test_checkpoint_and_rollback(server):
    count = (await server.run("x = 1")).data["execution_count"]
    taken = await server.call("checkpoint", name="here")
    assert taken.data["name"] == "here" and taken.data["execution_count"] == count
    await server.run("x = 2")
    back = await server.call("rollback", checkpoint="here")
    assert back.data["state"] == "rolled_back" and f"call {count}" in back.text and "not rolled back" in back.text
    assert (await server.run("x")).data["result"] == "1"
    wrong = await server.call("rollback", checkpoint="nowhere")
    assert wrong.failed and "NoSuchCheckpoint" in wrong.text


async def test_branches(server):
    await server.run("x = 1")
    await server.call("branch", name="try")
    assert (await server.run("x = 2; x", branch="try")).data["result"] == "2"
    assert (await server.run("x")).data["result"] == "1"
    assert not (await server.call("branch", name="try", action="commit")).failed
    assert (await server.run("x")).data["result"] == "2"
    await server.call("branch", name="other")
    assert not (await server.call("branch", name="other", action="close")).failed
    missing = await server.run("x", branch="other")
    assert missing.failed and "there is no branch 'other'" in missing.text
    assert (await server.run("x")).data["result"] == "2"  # the session is still the same


async def test_try_each(server):
    await server.run("x = 1")
    tried = await server.call("try_each", codes=["x += 1; x", "1/0"])
    first, second = tried.data["candidates"]
    assert (first["result"], second["error"]["name"]) == ("2", "ZeroDivisionError")
    assert (await server.run("x")).data["result"] == "1"
    await server.call("branch", name=first["branch"], action="commit")
    assert (await server.run("x")).data["result"] == "2"


async def test_huge_output_is_bounded(connected):
    async with connected("--max-chars", "1000") as server:
        huge = await server.run("print('begin', 'x' * 50_000_000, 'end')")
        assert not huge.failed and huge.data["truncated"] and huge.data["stdout_file"]
        assert len(huge.text) < 3000 and "begin" in huge.text and "end" in huge.text
        assert len(huge.data["stdout"]) < 1200 and huge.data["stdout_bytes"] == 50_000_000 + len("begin  end\n")
        value = await server.run("'y' * 100_000")
        assert len(value.text) < 3000 and len(value.data["result"]) < 1200
        assert value.data["omitted"] == {"result": 100_002 - 1000} and not value.data["truncated"]
        failed = await server.run("print('y' * 5000); raise ValueError('z' * 3000)")
        assert failed.data["omitted"].keys() == {"stdout", "message", "traceback"} and failed.data["truncated"]
        assert failed.data["omitted"]["stdout"] == 4001 and failed.data["omitted"]["message"] == 2000


async def test_many_artifacts_are_bounded(server):
    many = await server.run("for i in range(100): open(f'artifacts/{i}', 'w').close()")
    assert len(many.of("resource_link")) == len(many.data["artifacts"]) == 40 and "and 60 more" in many.text
    assert many.data["omitted"] == {"artifacts": 60, "artifact_info": 60}


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("run_python", {}, "code: Field required"),
        ("run_python", {"code": 1}, "code: Input should be a valid string"),
        ("run_python", {"code": "1", "cod": "2"}, "cod: Extra inputs are not permitted"),
        ("run_python", {"code": "1", "timeout": -1}, "timeout"),
        ("run_python", {"code": "1", "branch": "../other"}, "branch"),
        ("try_each", {"codes": []}, "codes"),
        ("read_file", {"path": "x", "offset": -1}, "offset"),
        ("branch", {"name": "a/b"}, "name"),
    ],
)
async def test_wrong_arguments_are_told(server, tool, arguments, said):
    wrong = await server.client.call_tool(tool, arguments)
    assert wrong.is_error and said in wrong.content[0].text


async def test_an_unknown_tool(server):
    with pytest.raises(MCPError, match="Unknown tool: rm; there are run_python"):
        await server.call("rm")


async def test_progress_is_the_live_output(connected, mode):
    seen = []

    async def progress(count, total, message):
        seen.append((count, message))

    async with connected(mode=mode) as server:
        code = "import time\nfor i in range(3):\n    print('line', i, flush=True); time.sleep(0.05)"
        await server.call("run_python", code=code, progress_callback=progress)
    assert "".join(message for _, message in seen) == "line 0\nline 1\nline 2\n"
    assert [count for count, _ in seen] == sorted({count for count, _ in seen}) and seen[-1][0] == 21
