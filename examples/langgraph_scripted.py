"""A chat model that follows a script, so that the examples run without any model service."""

import uuid
from typing import Any, Callable

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult


class Scripted(BaseChatModel):
    """``turns(question)`` is what it does about a question: lists of code to run side by side, then a text."""

    turns: Callable[[str], list[Any]]

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        asked = max(number for number, message in enumerate(messages) if isinstance(message, HumanMessage))
        said = sum(isinstance(message, AIMessage) for message in messages[asked:])
        turn = self.turns(messages[asked].text)[said]
        return ChatResult(generations=[ChatGeneration(message=_message(turn))])


def _message(turn):
    if isinstance(turn, str):
        return AIMessage(turn)
    calls = [code if isinstance(code, dict) else {"code": code} for code in turn]
    return AIMessage(
        "",
        tool_calls=[
            {"name": "code_sandbox", "args": args, "id": f"call-{uuid.uuid4().hex}"} for args in calls
        ],
    )
