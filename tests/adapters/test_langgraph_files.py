"""read_file, write_file and list_files beside code_sandbox, as an agent's tool node calls them."""

import pytest
from limpet.langgraph import code_sandbox, file_tools


@pytest.fixture
def tools(sandbox):
    return [sandbox, *file_tools(sandbox)]


def test_the_code_and_the_tools_see_the_same_files(call):
    assert call("write_file", path="d/a.txt", content="one\ntwo\nthree\n").content == "d/a.txt: 14 bytes written"
    assert "two" in call("code_sandbox", code="open('d/a.txt').read().split()").text
    assert call("list_files", path="d").content == "/session/d/a.txt  14"
    assert call("read_file", path="d/a.txt").content == "one\ntwo\nthree\n"
    part = call("read_file", path="d/a.txt", offset=1, limit=1).content
    assert part == "two\n\n[lines 1 to 2 of 3; read on with offset=2]"


def test_what_the_sandbox_refuses_is_told_to_the_model(call):
    message = call("read_file", path="none")
    assert message.status == "error" and "No such file or directory" in message.content


def test_what_is_no_text(call):
    call("code_sandbox", code="open('b', 'wb').write(bytes(9))")
    assert call("read_file", path="b").content == "b is no text: 9 bytes. Use code to look into it."


def test_long_texts_and_lists_are_cut(call):
    call("code_sandbox", code="open('many', 'w').write('y\\n' * 30000)")
    text = call("read_file", path="many", limit=30000).content
    assert len(text) < 8200 and "read on with offset=" in text
    call("code_sandbox", code="import os; os.mkdir('l'); [open(f'l/{i}', 'w').close() for i in range(600)]")
    assert call("list_files", path="l").content.endswith("[100 more]")


def test_without_a_session_nothing_would_stay(call):
    message = call("write_file", thread=None, path="f", content="")
    assert message.status == "error" and "only in a session" in message.content


def test_names_follow_the_sandbox(client):
    sandbox = code_sandbox(client, name="lab", list_packages=False)
    assert [tool.name for tool in file_tools(sandbox)] == ["lab_read_file", "lab_write_file", "lab_list_files"]
