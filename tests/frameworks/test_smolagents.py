"""smolagents: a CodeAgent whose code runs in a session. The model is a script."""

import limpet
import numpy
import pytest
from limpet.smolagents import LimpetExecutor
from PIL import Image
from smolagents import CodeAgent, FinalAnswerTool, Tool, tool
from smolagents.models import ChatMessage, Model
from smolagents.utils import AgentError


class Scripted(Model):
    """Says one piece of code after the other, and keeps what it was shown."""

    def __init__(self, *codes):
        super().__init__(model_id="scripted")
        self.codes, self.shown = list(codes), []

    def generate(self, messages, **ignored):
        self.shown.append("\n".join(str(message.content) for message in messages))
        return ChatMessage(role="assistant", content=f"<code>\n{self.codes.pop(0)}\n</code>")


@tool
def weather(city: str) -> dict:
    """The weather of a city.

    Args:
        city: Its name.
    """
    return {"city": city, "celsius": {"Paris": 21.5, "Oslo": 9.0}[city]}


@pytest.fixture
def executor(client):
    with LimpetExecutor(client=client, memory="512m") as executor:
        executor.send_tools({"final_answer": FinalAnswerTool(), "weather": weather})
        yield executor


def agent_of(executor, *codes, **options):
    model = Scripted(*codes)
    return CodeAgent(model=model, executor=executor, verbosity_level=0, **options), model


def test_an_agent(client):
    executor = LimpetExecutor(client=client, timeout=10)
    agent, model = agent_of(
        executor,
        "w = [weather(city=c)['celsius'] for c in ('Paris', 'Oslo')]\nprint(w)",
        "while True: pass",
        "final_answer(sum(w) + extra)",
        tools=[weather],
        additional_authorized_imports=["*"],
    )
    with agent:
        assert agent.run("How warm is it?", additional_args={"extra": 0.5}) == 31.0
    assert "[21.5, 9.0]" in model.shown[1]
    assert "time limit" in model.shown[2]


def test_state_stays(executor):
    executor("import math; a = 2")
    out = executor("print(math.sqrt(a)); a")
    assert (out.output, out.is_final_answer) == ("2", False) and out.logs.startswith("1.41421")
    assert executor("pass").output is None


def test_what_fails_is_shown_to_the_model(executor):
    for code, said in (("print('Missing", "SyntaxError"), ("print('before'); 1 / 0", "before\nExecuting"), ("nothing", "NameError")):
        with pytest.raises(AgentError, match=said):
            executor(code)


def test_what_a_model_writes_runs_and_what_it_reads_is_short(executor):
    out = executor("```python\nimport sys\n!echo shell\nprint('one\\rtwo')\nsys.stderr.write('why')\n7\n```")
    assert (out.output, out.logs) == ("7", "shell\ntwo\n\nstderr:\nwhy")
    with pytest.raises(AgentError, match="is text and not Python"):
        executor("Let me look at the data first.")


def test_a_crash_takes_nothing_away(executor):
    executor("a = 41")
    with pytest.raises(AgentError, match="STATE ROLLED BACK"):
        executor("import os; os._exit(3)")
    assert executor("a + 1").output == "42"
    assert executor("final_answer(weather('Oslo')['celsius'])").output == 9.0


@pytest.mark.parametrize("code, answer", [
    ("'text'", "text"), ("answer=[1, (2, 3), {4: b'5'}]", [1, (2, 3), {4: b"5"}]), ("None", None),
])  # fmt: skip
def test_final_answers(executor, code, answer):
    out = executor(f"print('logs'); final_answer({code})")
    assert (out.output, out.logs, out.is_final_answer) == (answer, "logs\n", True)


def test_a_final_answer_that_cannot_leave(executor):
    with pytest.raises(AgentError, match="plain data"):
        executor("final_answer(object())")
    assert executor("final_answer(1)").output == 1


def test_a_final_answer_of_ones_own_runs_here(executor):
    class Loud(FinalAnswerTool):
        def forward(self, answer):
            return answer.upper()

    executor.send_tools({"final_answer": Loud()})
    assert executor("final_answer('quiet')").output == "QUIET"


@pytest.mark.engine
def test_pictures_go_in_and_out(executor, isolating):
    executor.send_variables({"picture": Image.new("RGB", (10, 20), (255, 0, 0))})
    out = executor("final_answer(picture.rotate(90, expand=True))")
    assert isinstance(out.output, Image.Image) and out.output.size == (20, 10)
    shown = executor("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.gcf()").output
    assert isinstance(shown, Image.Image)


@pytest.mark.engine
def test_arrays_go_in_and_out(executor, isolating):
    executor.send_variables({"a": numpy.arange(6).reshape(2, 3), "text": "x"})
    assert (executor("final_answer(a * 2)").output == numpy.arange(6).reshape(2, 3) * 2).all()
    with pytest.raises(TypeError):
        executor.send_variables({"it": object()})


def test_tools_run_here_and_their_errors_come_back(executor):
    class Counting(Tool):
        name, description, inputs, output_type = "counting", "Counts.", {}, "integer"
        calls = 0

        def forward(self):
            self.calls += 1
            if self.calls > 1:
                raise ValueError("counted enough")
            return self.calls

    counting = Counting()
    executor.send_tools({"counting": counting})
    assert executor("counting()").output == "1" and counting.calls == 1
    with pytest.raises(AgentError, match="counted enough"):
        executor("counting()")


def test_whose_session_it_is(client, session):
    with LimpetExecutor(session) as executor:
        executor("a = 41")
    assert session.run("a").result == "41"
    before = len(client.sessions())
    executor = LimpetExecutor(client=client)
    assert len(client.sessions()) == before + 1
    agent, _ = agent_of(executor, "final_answer(1)", tools=[])
    with agent:
        assert agent.run("go") == 1
    assert len(client.sessions()) == before


def test_the_example(example):
    assert example("smolagents_agent.py").endswith("There are 3 species, and 344 penguins.\n")


def test_nothing_is_left_where_it_cannot_be_made(client):
    before = {row.session for row in client.sessions()}
    with pytest.raises(limpet.Error):
        LimpetExecutor(client=client, additional_imports=["no/such requirement"])
    assert {row.session for row in client.sessions()} <= before
