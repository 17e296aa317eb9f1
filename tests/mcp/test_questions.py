"""input() and approvals: what the code asks is put to the user of the client, in the way of each protocol."""

import contextlib

import pytest
from mcp import types

pytestmark = pytest.mark.anyio

TOOLS = "import os\n\ndef price(what): return len(what)\ndef buy(what, count=1): return [what, count]\ndef _hidden(): pass\nprint('loaded')\n"


class User:
    """Answers forms, one after the other."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    async def __call__(self, context, params):
        self.asked.append(params.message)
        answer = self.answers.pop(0)
        if isinstance(answer, str):
            return types.ElicitResult(action=answer)
        return types.ElicitResult(action="accept", content=answer)


@pytest.fixture
def tools(tmp_path):
    path = tmp_path / "tools.py"
    path.write_text(TOOLS)
    return str(path)


async def test_input(connected, mode):
    user = User({"line": "Ada"}, {"line": "36"})
    async with connected(mode=mode, elicitation_callback=user) as server:
        said = await server.run("a = input('Name? ')\nb = input('Age? ')\n(a, b)")
        assert said.data["result"] == "('Ada', '36')"
        assert ["Name?" in user.asked[0], "Age?" in user.asked[1]] == [True, True] and len(user.asked) == 2
        assert said.data["execution_count"] == 1  # the code ran once


async def test_input_without_an_answer(connected, mode):
    """Secrets are not even asked for."""
    user = User("decline", "cancel")
    async with connected(mode=mode, elicitation_callback=user) as server:
        for code in ("input()", "input()", "import getpass; getpass.getpass()"):
            assert (await server.run(code)).data["error"]["name"] == "EOFError"
        assert len(user.asked) == 2


async def test_a_client_without_forms(connected, mode, tools):
    async with connected("--tools", tools, "--allow", "price", mode=mode) as server:
        assert (await server.run("input()")).data["error"]["name"] == "EOFError"
        assert (await server.run("import limpet_tools\nlimpet_tools.price('tea')")).data["result"] == "3"
        denied = await server.run("limpet_tools.buy('tea')")
        assert denied.failed and "cannot ask its user" in denied.text


async def test_approval(connected, mode, tools):
    user = User({"allow": True}, {"allow": False}, "decline")
    async with connected("--tools", tools, mode=mode, elicitation_callback=user) as server:
        code = "import limpet_tools\nlimpet_tools.buy('tea', count=2)"
        assert (await server.run(code)).data["result"] == "['tea', 2]"
        assert "buy('tea', count=2)" in user.asked[0]
        for _ in range(2):
            denied = await server.run(code)
            assert denied.failed and "PermissionError" in denied.text and "the user has denied it" in denied.text


async def ask(server, code, **answers):
    """A call by hand in the way of 2026-07-28."""
    return await server.client.session.call_tool("run_python", {"code": code}, allow_input_required=True, **answers)


async def test_an_answer_is_good_for_one_question(connected):
    """The code asks the same twice. A client that sends the first answer again is asked the second question."""
    async with connected(elicitation_callback=User()) as server:
        code = "a = input('? ')\nb = input('? ')\n(a, b)"
        first = await ask(server, code)
        answer = {"question": types.ElicitResult(action="accept", content={"line": "one"})}
        second = await ask(server, code, input_responses=answer, request_state=first.request_state)
        again = await ask(server, code, input_responses=answer, request_state=first.request_state)
        assert second.result_type == again.result_type == "input_required"
        answer = {"question": types.ElicitResult(action="accept", content={"line": "two"})}
        done = await ask(server, code, input_responses=answer, request_state=again.request_state)
        assert done.structured_content["result"] == "('one', 'two')"


async def test_the_state_of_a_question_cannot_be_made_up(connected):
    async with connected(elicitation_callback=User()) as server:
        asked = await ask(server, "input()")
        for code, state in (("input()", "v1.AAAA"), ("input() ", asked.request_state), ("input()", asked.request_state[:-2])):
            with pytest.raises(Exception, match="requestState"):
                await ask(server, code, input_responses={}, request_state=state)


async def test_code_that_waits_ends_with_its_connection(connected, client, name):  # noqa: F811
    with client.open(name) as session:
        async with connected("--session", name, elicitation_callback=User()) as server:
            asked = await ask(server, "input()")
            assert asked.result_type == "input_required"
        with contextlib.suppress(KeyboardInterrupt):
            assert session.run("1").result == "1"
