"""The tools for a browser beside code_sandbox, as an agent's tool node calls them."""

import pytest

pytest.importorskip("langchain")

from limpet.langgraph import browser_tools

PAGE = """
<title>form</title><form onsubmit="document.title = q.value; got.innerText = 'got ' + q.value; return false">
<input id=q><button>go</button></form><p id=got></p>
"""


@pytest.fixture
def tools(sandbox):
    return [sandbox, *browser_tools(sandbox)]


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
