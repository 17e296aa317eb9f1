"""A model that says what a test has written down, behind an interface like OpenAI's."""

import http.server
import json
import threading


def text(*pieces):
    """An answer that is text, in pieces."""
    return [{"content": piece} for piece in pieces]


def code(source, id="call-1"):
    """An answer that runs code, in pieces as models send them."""
    arguments = json.dumps({"code": source})
    middle = len(arguments) // 2
    return [
        {"content": "I look. "},
        {"tool_calls": [{"index": 0, "id": id, "function": {"name": "run_python", "arguments": arguments[:middle]}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": arguments[middle:]}}]},
    ]


class Model:
    """`answers` are given one after the other; one that is a number is a status, one that is an event is waited for."""

    def __init__(self, *answers):
        self.answers, self.asked, self.keys = list(answers), [], []
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                model.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                model.keys.append(self.headers.get("Authorization"))
                answer = model.answers.pop(0)
                if isinstance(answer, threading.Event):
                    answer.wait(60)
                    answer = text("late")
                if isinstance(answer, int):
                    self.send_error(answer)
                    return
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                for delta in answer:
                    line = delta if isinstance(delta, str) else json.dumps({"choices": [{"delta": delta}]})
                    self.wfile.write(f"data: {line}\n\n".encode())
                    self.wfile.flush()
                self.wfile.write(b"data: [DONE]\n\n")

            def log_message(self, *unused):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def last(self):
        """What the model was told last."""
        return self.asked[-1]["messages"][-1]["content"]

    def stop(self):
        self._server.shutdown()
        self._server.server_close()
