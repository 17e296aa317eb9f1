#!/usr/bin/python3 -IS
"""A supervisor that says whatever a test wants it to: limpetd with the engine `local` starts it as its guest.

The code of a cell is run right here and sees `guest`. It changes what is answered: guest.replies["namespace"] = a
body, (number, message) for an error, None for no answer, or a function of the request's id and body that returns one
of these. guest.repeats["rollback"] = what is sent behind the answer, in the same words. guest.connect() breaks the
connection for a new one. Everything received is in guest.received.
"""

import json
import os
import sys
import types

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)
# The package without what it imports itself, which takes longer than most tests.
sys.modules["limpet"] = types.ModuleType("limpet")
sys.modules["limpet"].__path__ = [os.path.join(ROOT, "clients", "python", "src", "limpet")]
from tests.integration.raw_peer import Peer  # noqa: E402

NOTHING = {
    "status": "ok", "state": "kept", "rolled_back_to": None, "not_restored": [], "state_protection": None,
    "stdout": "", "stderr": "", "stdout_bytes": 0, "stderr_bytes": 0, "truncated": False, "stdout_file": None,
    "stderr_file": None, "result": None, "changed": None, "displays": [], "error": None, "signal": None,
    "exit_code": None, "duration": 0.0, "usage": {"cpu": 0.0, "peak_memory": 0},
}  # fmt: skip


class Guest:
    def __init__(self, link):
        self.link = link
        self.welcome = None
        self.received = []  # [kind, body] of each request
        self.replies = {}
        self.repeats = {}  # lists
        self.executed = {}  # fields of the next `executed`
        self.last = None  # `executed` that may not have arrived: its id and body
        self.branches = {0: {"epoch": 1, "execution_count": 0}}
        self.checkpoints = []
        self.connect()

    def connect(self):
        self.peer = Peer(os.path.join(self.link, "sock"), timeout=None)
        self.peer.send("guest_hello", 0, self.hello())

    def hello(self):
        with open(os.path.join(self.link, "session"), encoding="utf-8") as file:
            session = file.read()
        with open(os.path.join(self.link, "secret"), "rb") as file:
            secret = file.read()
        branches = [{"branch": number, **counts} for number, counts in self.branches.items()]
        return {"protocol": 1, "session": session, "secret": secret, "peer": "scripted", "branches": branches,
                "running": None}  # fmt: skip

    def execute(self, id, body):
        counts = self.branches[body["branch"]]
        counts["execution_count"] += 1
        scope = {"guest": self, "id": id, "result": None}
        exec(body["code"], scope)
        executed = NOTHING | {name: body[name] for name in ("run_id", "code_hash", "branch")} | counts
        executed["result"] = None if scope["result"] is None else json.dumps(scope["result"])
        self.last = id, executed | self.executed
        self.executed = {}
        self.peer.send("executed", *self.last)

    def checkpoint(self, body):
        checkpoint = {
            "id": f"c{len(self.checkpoints) + 1}", "name": body["name"], "branch": body["branch"],
            "execution_count": self.branches[body["branch"]]["execution_count"], "created": 1.5,
            "automatic": False, "private_bytes": 4096, "parent": None,
        }  # fmt: skip
        self.checkpoints.append(checkpoint)
        return {"checkpoint": checkpoint, "dropped": []}

    def rollback(self, body):
        for checkpoint in self.checkpoints:
            if body["checkpoint"] in (checkpoint["id"], checkpoint["name"]):
                counts = self.branches[body["branch"]]
                counts["epoch"] += 1
                return {"checkpoint": checkpoint["id"], "execution_count": checkpoint["execution_count"],
                        "epoch": counts["epoch"], "not_restored": []}  # fmt: skip
        return 1106, "no such checkpoint"

    def drop(self, body):
        kept = [c for c in self.checkpoints if body["checkpoint"] not in (c["id"], c["name"])]
        gone, self.checkpoints = len(kept) < len(self.checkpoints), kept
        return {} if gone else (1106, "no such checkpoint")

    def branch(self, body):
        origin = self.branches[body["from"]]
        self.branches[body["branch"]] = {"epoch": 1, "execution_count": origin["execution_count"]}
        return {**self.branches[body["branch"]], "checkpoint": None, "not_restored": []}

    def commit(self, body):
        source, target = self.branches.pop(body["from"]), self.branches[body["branch"]]
        target["epoch"] += 1
        target["execution_count"] = max(source["execution_count"], target["execution_count"])
        return dict(target)

    def close(self, body):
        del self.branches[body["branch"]]
        return {}

    def reset(self, body):
        self.branches[body["branch"]]["epoch"] += 1
        return {"epoch": self.branches[body["branch"]]["epoch"]}

    def request(self, kind, id, body):
        honest = {
            "checkpoint": self.checkpoint, "rollback": self.rollback, "drop": self.drop, "branch": self.branch,
            "commit": self.commit, "close": self.close, "reset": self.reset,
            "checkpoints": lambda body: {"checkpoints": self.checkpoints},
            "namespace": lambda body: {"names": [], "more": 0},
        }  # fmt: skip
        if kind in self.replies:
            reply = self.replies[kind]
        elif body.get("branch", 0) in self.branches or kind == "branch":
            reply = honest[kind](body)
        else:
            reply = 1204, "there is no such branch"
        self.answer(id, reply(id, body) if callable(reply) else reply)
        for more in self.repeats.get(kind, ()):
            self.answer(id, more)

    def answer(self, id, reply):
        if isinstance(reply, tuple):
            self.peer.send("error", id, {"number": reply[0], "name": "Scripted", "message": reply[1]})
        elif reply is not None:
            self.peer.send("reply", id, reply)

    def receive(self):
        """The next message, of whatever connection there is."""
        while True:
            peer = self.peer
            try:
                return peer.receive()
            except (EOFError, ConnectionError):
                if peer is self.peer:
                    raise

    def serve(self):
        while True:
            kind, id, body = self.receive()
            if kind == "stop":
                return
            if kind == "guest_welcome":
                self.welcome = body
                if "imports" in body:
                    self.peer.send("prepared", 0, {"failed": []})
                if self.last:
                    self.peer.send("executed", *self.last)
                continue
            if kind == "settled":
                continue
            self.received.append([kind, {key: value for key, value in body.items() if key != "code"}])
            if kind == "execute":
                self.execute(id, body)
            elif kind not in ("interrupt", "claim"):
                self.request(kind, id, body)


if __name__ == "__main__":
    link, directory = (sys.argv[sys.argv.index(option) + 1] for option in ("--link", "--directory"))
    os.chdir(directory)
    try:
        Guest(link).serve()
    except (EOFError, ConnectionError):
        pass
