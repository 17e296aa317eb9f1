"""The tools for a browser beside code_sandbox, as an agent's tool node calls them."""

import asyncio

import pytest

pytest.importorskip("langchain")

from limpet.langgraph import browser_tools, code_sandbox

PAGE = """
<title>form</title><form onsubmit="document.title = q.value; got.innerText = 'got ' + q.value; return false">
<input id=q><button>go</button></form><p id=got></p>
"""


@pytest.fixture
def tools(client, name):
    sandbox = code_sandbox(client, list_packages=False)
    yield {tool.name: tool for tool in [sandbox, *browser_tools(sandbox)]}
    for row in client.sessions():
        if row.session == name:
            client.close_session(name)


@pytest.fixture(params=["blocking", "asyncio"])
def call(request, tools, name):
    def call(tool, thread=name, **args):
        given = {"name": tool, "args": args, "id": "call-1", "type": "tool_call"}
        config = {"configurable": {"thread_id": thread}} if thread else {}
        if request.param == "blocking":
            return tools[tool].invoke(given, config)
        return asyncio.run(tools[tool].ainvoke(given, config))

    return call


def test_a_form_is_filled_in_and_seen(call):
    call("code_sandbox", code=f"open('form.html', 'w').write({PAGE!r})")
    assert call("browse", url="file:///session/form.html").content == "form (file:///session/form.html)"
    call("type", selector="#q", text='it\'s "quoted"\\')
    assert call("click", selector="text=go").content.startswith('it\'s "quoted"\\ (')
    assert "got it's" in call("read").content
    assert call("read", selector="#got").content.endswith('\ngot it\'s "quoted"\\')
    assert call("type", selector="#q", text="more", enter=True).content.startswith("more (")
    blocks = call("screenshot", full=True).content
    assert [block["type"] for block in blocks] == ["text", "image"] and "more (file:" in blocks[0]["text"]
    assert "'more'" in call("code_sandbox", code="import limpet_browser; limpet_browser.page().title()").content
    assert "NameError" in call("code_sandbox", code="page").content


def test_what_goes_wrong_is_told(call):
    message = call("browse", url="http://10.0.0.1/")
    assert message.status == "error" and "net::ERR_" in message.content
    message = call("browse", thread=None, url="about:blank")
    assert message.status == "error" and "only in a session" in message.content
