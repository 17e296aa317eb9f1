"""smolagents' own executor for E2B: a CodeAgent with state, tools, extra arguments and errors. The model is a script."""

from smolagents import CodeAgent, tool
from smolagents.models import ChatMessage, Model


class Scripted(Model):
    def __init__(self, *codes):
        super().__init__(model_id="scripted")
        self.codes, self.shown = list(codes), []

    def generate(self, messages, **ignored):
        self.shown.append("\n".join(str(message.content) for message in messages))
        return ChatMessage(role="assistant", content=f"<code>\n{self.codes.pop(0)}\n</code>")


@tool
def weather(city: str) -> float:
    """The weather of a city.

    Args:
        city: Its name.
    """
    return {"Paris": 21.5, "Oslo": 9.0}[city]


model = Scripted(
    "warm = [weather(city=each) for each in ('Paris', 'Oslo')]\nprint(warm)", "1 / 0", "final_answer(sum(warm) + extra)"
)
with CodeAgent(tools=[weather], model=model, executor_type="e2b", verbosity_level=0) as agent:
    assert agent.run("How warm is it?", additional_args={"extra": 0.5}) == 31.0
    assert "[21.5, 9.0]" in model.shown[1] and "ZeroDivisionError" in model.shown[2]
print("done")
