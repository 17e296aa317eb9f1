"""Code mode of Pydantic AI in sessions. The model is a script, which says what code to run."""

import pytest
from limpet.pydantic_ai import CodeMode, LimpetWorkspace
from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.exceptions import UsageLimitExceeded, UserError
from pydantic_ai.messages import BinaryContent, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import UsageLimits

pytestmark = pytest.mark.anyio


class Weather(BaseModel):
    city: str
    celsius: float


class Scripted:
    """Runs each of the snippets, and keeps what the model is shown."""

    def __init__(self, *snippets):
        self.calls = [snippet if isinstance(snippet, dict) else {"code": snippet} for snippet in snippets]
        self.tools = self.messages = None

    def __call__(self, messages, info):
        self.tools, self.messages = {tool.name: tool for tool in info.function_tools}, messages
        done = len(self.texts)
        if done < len(self.calls):
            return ModelResponse([ToolCallPart("run_code", self.calls[done])])
        return ModelResponse([TextPart("done")])

    @property
    def texts(self):
        parts = [part for message in self.messages for part in message.parts if isinstance(part, ToolReturnPart)]
        return [part.content for part in parts]


async def run(script, mode=None, tools=(), **options):
    agent = Agent(FunctionModel(script), capabilities=[mode or CodeMode()], tools=tools)
    await agent.run("go", **options)
    return script.texts


def weather(city: str) -> Weather:
    """The weather of a city."""
    return Weather(city=city, celsius={"Paris": 21.5, "Oslo": 9.0}[city])


async def test_code_calls_tools(standard):
    script = Scripted("w = [weather(city=c)['celsius'] for c in ('Paris', 'Oslo')]\nsum(w)", "print(max(w))")
    first, second = await run(script, tools=[weather])
    assert "value:\n30.5" in first and "21.5" in second
    assert list(script.tools) == ["run_code"]
    said = script.tools["run_code"].description
    assert "def weather(*, city: str) -> Weather" in said and "The weather of a city." in said and "class Weather(TypedDict)" in said


async def test_what_a_model_writes_runs_and_what_it_reads_is_short(standard):
    fenced, prose = await run(
        Scripted("```python\n!echo shell\nprint('one\\rtwo')\n```", "Let me look at the data first."), CodeMode(on_error="keep")
    )
    assert fenced.endswith("stdout:\nshell\ntwo") and "is text and not Python" in prose


async def test_calls_of_one_message_run_in_its_order(standard):
    codes = ["value = 1", "import time; time.sleep(0.02); value += 1; value", "value *= 10; value"]

    def model(messages, info):
        parts = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        texts.extend(part.content for part in parts)
        return ModelResponse([TextPart("done")] if parts else [ToolCallPart("run_code", {"code": code}) for code in codes])

    texts = []
    await Agent(FunctionModel(model), capabilities=[CodeMode()]).run("go")
    assert [text.rpartition("value:\n")[2] for text in texts[1:]] == ["2", "20"]


async def test_a_time_limit_takes_the_snippet_back_and_no_more(standard):
    texts = await run(
        Scripted("x = 41", "x = 0\nwhile True: pass", "print(x + 1, weather(city='Oslo')['celsius'])"),
        CodeMode(timeout=10),
        [weather],
    )
    assert "timeout" in texts[1] and "STATE ROLLED BACK" in texts[1]
    assert "42 9.0" in texts[2]


async def test_a_crash_and_an_error_take_the_snippet_back(standard):
    texts = await run(Scripted("x = 1", "x = 2; import os; os._exit(3)", "x = 3; 1 / 0", "x"))
    assert "exited" in texts[1] and "ZeroDivisionError" in texts[2] and "value:\n1" in texts[3]
    texts = await run(Scripted("x = 3; 1 / 0", "x"), CodeMode(on_error="keep"))
    assert "value:\n3" in texts[1]


async def test_what_tools_have_done_is_told_where_it_is_not_taken_back(standard):
    sent = []

    def send(text: str) -> None:
        sent.append(text)

    texts = await run(Scripted("send(text='a'); 1 / 0", "'fine'"), tools=[send])
    assert sent == ["a"] and texts[0].endswith("not taken back: send") and "taken back: send" not in texts[1]


async def test_restart(standard):
    texts = await run(Scripted("x = 1", {"code": "print('x' in globals(), weather(city='Oslo')['city'])", "restart": True}), tools=[weather])
    assert "False Oslo" in texts[1]


async def test_each_call_is_approved(standard):
    asked = []

    def approve(call):
        asked.append((call.tool, call.kwargs))
        return call.kwargs["city"] != "Oslo" or "not there"

    code = "print(weather(city='Paris')['celsius'])\ntry: weather(city='Oslo')\nexcept PermissionError as e: print(e)"
    (text,) = await run(Scripted(code), CodeMode(approve=approve), [weather])
    assert "21.5" in text and "not there" in text
    assert asked == [("weather", {"city": "Paris"}), ("weather", {"city": "Oslo"})]


async def test_a_tool_that_requires_approval(standard):
    def needing(script, mode):
        agent = Agent(FunctionModel(script), capabilities=[mode])
        agent.tool_plain(requires_approval=True)(weather)
        return agent

    script = Scripted("weather(city='Oslo')")
    await needing(script, CodeMode()).run("go")
    assert "PermissionError" in script.texts[0] and "CodeMode.approve" in script.texts[0]
    script = Scripted("weather(city='Oslo')['celsius']")
    await needing(script, CodeMode(approve=lambda call: True)).run("go")
    assert "value:\n9.0" in script.texts[0]


async def test_what_tools_raise_is_raised_in_the_code(standard):
    def fails(kind: str) -> None:
        raise {"retry": ModelRetry("try another"), "value": ValueError("no such thing")}[kind]

    code = "for kind in ('retry', 'value'):\n  try: fails(kind=kind)\n  except Exception as e: print(e)\ntry: fails(wrong=1)\nexcept Exception as e: print('refused', e)"
    (text,) = await run(Scripted(code), tools=[fails])
    assert "try another" in text and "no such thing" in text and "refused" in text and "kind" in text


async def test_calls_are_bounded(standard):
    (text,) = await run(Scripted("for _ in range(9): weather(city='Oslo')"), CodeMode(max_tool_calls=3), [weather])
    assert "a snippet calls 3 tools at most" in text
    with pytest.raises(UsageLimitExceeded):
        await run(Scripted(*["weather(city='Oslo')"] * 5), tools=[weather], usage_limits=UsageLimits(tool_calls_limit=4))


async def test_figures_are_shown(standard):
    code = "class F:\n  def _repr_mimebundle_(self, **kw): return {'image/png': b'png'}\ndisplay(F())"
    script = Scripted(code)
    await run(script)
    shown = [part.content for message in script.messages for part in message.parts if isinstance(part, UserPromptPart)][1:]
    assert [BinaryContent(b"png", media_type="image/png")] in [[item for item in content if isinstance(item, BinaryContent)] for content in shown]


async def test_some_tools_stay_as_they_are(standard):
    def other() -> int:
        return 1

    script = Scripted("dir()")
    (text,) = await run(script, CodeMode(tools=["weather"]), [weather, other])
    assert sorted(script.tools) == ["other", "run_code"] and "'weather'" in text and "'other'" not in text
    with pytest.raises(UserError, match="rename"):
        await run(Scripted(), CodeMode(tools=["weather"]), [weather, named("run_code")])
    with pytest.raises(UserError, match="same name in code"):
        await run(Scripted(), tools=[named("a-b"), named("a.b")])


def named(name):
    from pydantic_ai import Tool

    return Tool(lambda: 1, name=name)


async def test_names_that_code_cannot_have(standard):
    (text,) = await run(Scripted("a_b() + class_() + tool_1st() + tool_x()"), tools=[named("a-b"), named("class"), named("1st"), named("_x")])
    assert "value:\n4" in text


async def test_a_run_has_a_session_of_its_own_or_that_of_the_workspace(standard, client):
    before = len(client.sessions())
    assert "NameError" in (await run(Scripted("x = 41")), await run(Scripted("x")))[1][0]
    assert len(client.sessions()) == before
    workspace = LimpetWorkspace(checkpoint="always")
    mode = CodeMode(workspace=workspace)
    await run(Scripted("x = 41; open('f', 'w').write('text')"), mode)
    assert "value:\n42" in (await run(Scripted("x + 1"), mode))[0]
    assert await workspace.read_bytes("/session/f") == b"text"
    await (await workspace.session()).close()
    with pytest.raises(Exception, match="closed|NoSuchSession"):
        await run(Scripted("x"), CodeMode(workspace=LimpetWorkspace(workspace.ref)))


async def test_dependencies_reach_tools(standard):
    agent = Agent(FunctionModel(script := Scripted("who()")), deps_type=str, capabilities=[CodeMode()])

    @agent.tool
    def who(ctx: RunContext[str]) -> str:
        return ctx.deps

    await agent.run("go", deps="me")
    assert "value:\n'me'" in script.texts[0]


def test_the_example(example):
    assert example("pydantic_ai_agent.py").endswith("There are 3 species, and 344 penguins.\n")
