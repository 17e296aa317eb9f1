#!/usr/bin/env python3
"""A session over HTTP, with nothing but the standard library: `limpet serve` runs, LIMPET_URL and LIMPET_KEY say where and who."""

import json
import os
import urllib.request

URL = os.environ.get("LIMPET_URL", "http://127.0.0.1:8000") + "/v1"
CODE = """
name = input('Who are you? ')
for i in range(3):
    print('hello', name, i, flush=True)
open('artifacts/greeting.txt', 'w').write(f'hello {name}')
"""


def ask(method, path, body=None, **headers):
    """An open answer."""
    headers = {"X-API-Key": os.environ.get("LIMPET_KEY", ""), "Content-Type": "application/json", **headers}
    data = None if body is None else json.dumps(body).encode()
    return urllib.request.urlopen(urllib.request.Request(URL + path, data, headers, method=method))


def events(answer):
    """The events of a stream: name and data."""
    name = ""
    for line in answer:
        field, _, value = line.decode().rstrip("\n").partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)


def main():
    session = json.load(ask("POST", "/sessions", {}))["session"]
    at = f"/sessions/{session}"
    with ask("POST", f"{at}/run", {"code": CODE, "input": True}, Accept="text/event-stream") as answer:
        for name, data in events(answer):
            if name == "ask":
                print(data["prompt"], "→ Ada")
                ask("POST", f"{at}/answers", {"run_id": data["run_id"], "ask": data["ask"], "line": "Ada"}).close()
            elif name == "output":
                print(data["text"], end="")
            elif name == "result":
                print("status:", data["status"])
    with ask("GET", f"{at}/artifacts/greeting.txt") as file:
        print("the file says:", file.read().decode())
    ask("DELETE", at).close()


main()
