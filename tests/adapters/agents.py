"""Agents whose model does what the question says: code, in calls one after the other or side by side."""

import asyncio

from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph_scripted import Scripted
from limpet.langgraph import Rewind

THEN, BESIDE = "\n### then\n", "\n### beside\n"


def turns(question):
    return [*(part.split(BESIDE) for part in question.split(THEN)), "done"]


def model():
    return Scripted(turns=turns)


class Agent:
    """Asks questions in one thread and returns the answers of the tool, with either way of calling."""

    def __init__(self, sandbox, thread, kind="blocking", rewind=True, **options):
        middleware = [Rewind(sandbox, **options)] if rewind else []
        self.graph = create_agent(model(), [sandbox], middleware=middleware, checkpointer=InMemorySaver())
        self.kind = kind
        self.config = {"configurable": {"thread_id": thread}}
        self.loop = asyncio.new_event_loop() if kind == "asyncio" else None

    def ask(self, *codes, beside=False, at=None):
        """Runs the codes in calls; ``at``: a point of the thread to go on from. Returns the tool's messages."""
        question = (BESIDE if beside else THEN).join(codes)
        return self.go({"messages": [("human", question)]}, at)

    def go(self, given, at=None):
        before = len(self.graph.get_state(at or self.config).values.get("messages", []))
        config = at or self.config
        if self.loop is None:
            state = self.graph.invoke(given, config)
        else:
            state = self.loop.run_until_complete(self.graph.ainvoke(given, config))
        return [message for message in state["messages"][before:] if isinstance(message, ToolMessage)]

    def one(self, code, at=None):
        (message,) = self.ask(code, at=at)
        return message

    def value(self, code, at=None):
        message = self.one(code, at=at)
        assert message.status == "success", message.text
        return message.artifact["result"]

    def here(self):
        """The point of the thread that is reached now."""
        return self.graph.get_state(self.config).config

    def close(self):
        if self.loop is not None:
            self.loop.close()
