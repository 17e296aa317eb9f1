"""The example of browser-use, with a scripted model on this machine behind a binding: no key is inside the sandbox."""

import http.server
import json
import os
import subprocess
import sys
import threading

import limpet
import pytest

from tests.support import ROOT

KEY = "sk-known-only-outside"
STEPS = [
    {"navigate": {"url": "http://127.0.0.1:8000/prices.html", "new_tab": False}},
    {"done": {"text": "Tea costs 3", "success": True}},
]

pytestmark = pytest.mark.skipif(
    "bindings" not in limpet.SessionOptions.__annotations__, reason="the network of sessions has no bindings yet"
)


class Model(http.server.BaseHTTPRequestHandler):
    """A service with OpenAI's interface, whose model does one step after the other."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.headers["Authorization"], json.dumps(asked)))
        step = STEPS[min(len(self.server.asked), len(STEPS)) - 1]
        plan = {"evaluation_previous_goal": "-", "memory": "-", "next_goal": "-", "action": [step]}
        message = {"role": "assistant", "content": json.dumps(plan)}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choices = [{"index": 0, "finish_reason": "stop", "message": message}]
        reply = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": usage}
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def model():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        server.asked = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_an_agent_works_in_the_browser_and_its_key_stays_outside(limpetd, model):
    environment = os.environ | {
        "LIMPET_SOCKET": limpetd.socket, "LIMPET_AUTOSTART": "0", "OPENAI_API_KEY": KEY,
        "PYTHONPATH": os.path.join(ROOT, "clients", "python", "src"),
    }  # fmt: skip
    url = f"http://127.0.0.1:{model.server_port}/v1"
    program = [sys.executable, os.path.join(ROOT, "examples/browser_use_agent.py"), os.environ["LIMPET_IMAGE"], url]
    ended = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=400)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout == "the agent says: 'Tea costs 3'\nthe key inside: []\nits page: 'Prices'\n"
    assert {key for key, _ in model.asked} == {f"Bearer {KEY}"}
    assert any("Tea costs 3." in asked for _, asked in model.asked)  # it has seen the page
