"""Tools for LangGraph, called as an agent's tool node calls them. A test's fixture `tools` is the list of them."""

import asyncio

import pytest


@pytest.fixture
def sandbox(client, name):
    """code_sandbox, whose session of the thread `name` ends with the test."""
    from limpet.langgraph import code_sandbox

    yield code_sandbox(client, list_packages=False)
    for row in client.sessions():
        if row.session == name:
            client.close_session(name)


@pytest.fixture(params=["blocking", "asyncio"])
def call(request, tools, name):
    """Calls the tool of that name, on the thread `name` unless told otherwise."""
    named = {tool.name: tool for tool in tools}

    def call(tool, thread=name, **args):
        given = {"name": tool, "args": args, "id": "call-1", "type": "tool_call"}
        config = {"configurable": {"thread_id": thread}} if thread else {}
        if request.param == "blocking":
            return named[tool].invoke(given, config)
        return asyncio.run(named[tool].ainvoke(given, config))

    return call
