#!/usr/bin/env python3
"""A session that reaches one service and nothing else, with a key that it never sees. The service is a server of this program."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import limpet

CODE = """
import json, os, urllib.error, urllib.request

def ask(url, question=None):
    data = json.dumps({"question": question}).encode() if question else None
    try:
        with urllib.request.urlopen(url, data) as answer:
            return json.loads(answer.read())["answer"]
    except urllib.error.HTTPError as error:
        return f"{error.code}: {error.read().decode().strip()}"
"""


class Model(BaseHTTPRequestHandler):
    """What a service does that wants a key."""

    def do_POST(self):
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["question"]
        known = self.headers.get("Authorization") == "Bearer the-key"
        body = json.dumps({"answer": f"{question.upper()}!" if known else "who are you?"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    bindings = {"model": {"url": url, "headers": {"Authorization": "Bearer the-key"}}}

    with limpet.Client() as client, client.open(bindings=bindings) as session:
        session.run(CODE).check()
        print("by the binding:", session.run("ask('http://model.limpet/', 'hello')").result)
        print("the key is inside:", session.run("'the-key' in str(os.environ)").result)
        print("another place:", session.run("ask('http://198.51.100.7/', 'hello')").result)

        session.run("os.environ['no_proxy'] = ''")  # the server is on a loopback, too
        session.set_network({"allow": [url.removeprefix("http://")]})
        print("by a rule:", session.run(f"ask('{url}', 'hello')").result)
    server.shutdown()


main()
