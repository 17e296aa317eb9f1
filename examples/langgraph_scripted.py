"""A chat model that follows a script, so that the examples run without any model service."""

import uuid
from typing import Any, Callable

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult


class Scripted(BaseChatModel):
    """``turns(question)`` is what it does about a question: lists of code to run side by side, then a text.

    In place of code there may be the arguments of the tool, or, as a pair, the name of another tool and its arguments.
    """

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
    return AIMessage("", tool_calls=[_call(code) for code in turn])


def _call(code):
    name, args = code if isinstance(code, tuple) else ("code_sandbox", code)
    args = args if isinstance(args, dict) else {"code": args}
    return {"name": name, "args": args, "id": f"call-{uuid.uuid4().hex}"}
