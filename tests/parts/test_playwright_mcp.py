"""Microsoft's @playwright/mcp, unchanged, on the browser of a session: through a forwarded port."""

import json
import pathlib
import subprocess

import pytest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "build/environments/playwright-mcp/node_modules/.bin/playwright-mcp"


class Server:
    """A server for the Model Context Protocol, asked line by line."""

    def __init__(self, directory, *arguments):
        self.process = subprocess.Popen([PROGRAM, *arguments], cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.number = 0
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        self.ask("initialize", client)
        self.send({"method": "notifications/initialized"})

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.stdin.close()
        self.process.wait(60)

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})
        while True:
            answer = json.loads(self.process.stdout.readline())
            if answer.get("id") == self.number:
                return answer["result"]

    def call(self, tool, **arguments):
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})
        text = "".join(block.get("text", "") for block in result["content"])
        assert not result.get("isError"), text
        return text


@pytest.mark.skipif(not PROGRAM.exists(), reason="scripts/test installs it")
def test_it_sees_and_changes_the_page_that_code_has(session, tmp_path):
    html = "<title>shared</title><button onclick='document.title = 1'>press</button>"
    session.run(f"import limpet_browser; page = limpet_browser.page(); page.set_content({html!r})", timeout=120).check()
    with session.forward(9222) as address, Server(tmp_path, "--cdp-endpoint", f"http://{address}") as server:
        assert "press" in server.call("browser_snapshot")
        server.call("browser_evaluate", function="() => document.querySelector('button').click()")
        assert session.run("page.title()").result == "'1'"
        server.call("browser_navigate", url="data:text/html,<title>elsewhere</title>")
    assert session.run("page.title()").result == "'elsewhere'"
