"""How two gateways bear many sessions in pods. Pods are doubles: an object, and one server that answers for the controllers of all.

usage: LIMPET_BUILD=… PYTHONPATH=clients/python/src python -m tests.kubernetes.load [SESSIONS [CALLS [RATE]]]

Two pairs of gateways have 10 sessions and SESSIONS of them. Both are asked RATE times a second, in turn, by a connection for each session, which goes to
either gateway of the pair. Prints the percentiles, and the memory of a gateway. Takes port 7310 of all addresses, so that no test with pods runs meanwhile.
"""

import asyncio
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import threading
import time

import msgpack
import zmq

from tests.support.fake import record
from tests.support.gateway import Gateway

from .standin import NAMESPACE, Standin, container_status

FEW, ROUNDS = 10, 5


class Doubles(Standin):
    """Pods that are there at once."""

    def run_pod(self, name, body):
        number = len(self.running) + 1
        address = f"127.{1 + number // 62500}.{number // 250 % 250}.{2 + number % 250}"
        self.running[name] = Double(address)

    def serve(self):
        """The controllers."""
        public, secret = re.findall(r'"(.{40})"', (self.directory / "limpet-net.key_secret").read_text())
        router = zmq.Context.instance().socket(zmq.ROUTER)
        router.setsockopt(zmq.BACKLOG, 4096)
        router.curve_server, router.curve_publickey, router.curve_secretkey = True, public.encode(), secret.encode()
        router.bind("tcp://0.0.0.0:7310")
        while True:
            peer, frame = router.recv_multipart()
            version, kind, number, body = msgpack.unpackb(frame)
            router.send_multipart([peer, msgpack.packb([version, 2, number, answer(kind, body)])])


class Double:
    """Of a pod."""

    def __init__(self, address):
        self.ending, self.address = threading.Event(), address

    def described(self):
        running = container_status("controller", {"running": {"startedAt": "2026-01-01T00:00:00Z"}})
        return {"phase": "Running", "podIP": self.address, "containerStatuses": [running]}


def answer(kind, body):
    if kind == 10:  # open
        said = {"session": body["session"], "instance": "0" * 16, "created": True, "engine": "pod", "options": {}}
        return {**said, "language": "python"}
    if kind == 11:  # run
        return record(run_id=body["run_id"], session=body["session"], result="1")
    return {"protocol": 1, "features": [], "sessions": []}


class User:
    """A connection to a gateway."""

    def __init__(self, key, port):
        self.key, self.port, self.streams = key, port, None
        self.lock = asyncio.Lock()

    async def ask(self, path, body):
        async with self.lock:
            return await self._ask(path, body)

    async def _ask(self, path, body):
        if self.streams is None or self.streams[0].at_eof():  # after 75 seconds without a request
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {self.key}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        writer.write(head.encode() + data)
        said = (await reader.readuntil(b"\r\n\r\n")).decode()
        answered = await reader.readexactly(int(re.search(r"content-length: (\d+)", said, re.I)[1]))
        assert said.split()[1].startswith("20"), answered
        return json.loads(answered)


class Crowd:
    """Users of a pair of gateways, each with a session, and a connection to either."""

    def __init__(self, key, gateways, count):
        self.gateways, self.count = gateways, count
        self.users = [[User(key, gateway.port) for gateway in gateways] for _ in range(count)]
        self.next = 0

    async def open(self):
        began = time.perf_counter()
        for number in range(self.count):
            await self.users[number][number % 2].ask("/v1/sessions", {"name": f"s{self.count}-{number}"})
        for side in range(2):  # each gateway has found each session
            for number in range(self.count):
                await self.call(number, side)
        took = time.perf_counter() - began
        print(f"{self.count} sessions: opened in {took:.0f} s; {memory(self.gateways[0]):.0f} MiB a gateway", flush=True)

    async def call(self, number, side):
        began = time.perf_counter()
        done = await self.users[number][side].ask(f"/v1/sessions/s{self.count}-{number}/run", {"code": "x = 1"})
        assert done["result"] == "1"
        return time.perf_counter() - began

    async def round(self, calls, rate):
        """Calls at a fixed rate, whether or not those before have ended."""
        began, asked = time.perf_counter(), []
        for each in range(calls):
            await asyncio.sleep(max(0, began + each / rate - time.perf_counter()))
            self.next += 1
            asked.append(asyncio.ensure_future(self.call(self.next // 2 % self.count, self.next % 2)))
        return await asyncio.gather(*asked)


def memory(gateway):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{gateway.process.pid}/status").read_text())[1]) / 1024


def at(percent, values):
    return sorted(values)[int(len(values) * percent / 100)] * 1000


async def measured(few, many, calls, rate):
    for crowd in (few, many):
        await crowd.open()
    times = {few: [], many: []}
    for _ in range(ROUNDS):
        for crowd in times:
            times[crowd] += await crowd.round(calls // ROUNDS, rate)
    for crowd, found in times.items():
        shown = ", ".join(f"p{percent} {at(percent, found):.2f} ms" for percent in (50, 90, 99))
        print(f"{crowd.count} sessions, {len(found)} calls, {rate} a second: {shown}; {memory(crowd.gateways[0]):.0f} MiB a gateway")
    print(f"p99 to p99: {at(99, times[many]) / at(99, times[few]):.2f}")


def main(count=1000, calls=5000, rate=100):
    standin, made = Doubles(), []
    threading.Thread(target=standin.serve, daemon=True).start()
    environment = {
        **standin.manifest["ConfigMap", "limpet-pods"]["data"], "LIMPET_SERVE_FLEET": f"kubernetes://here/{NAMESPACE}",
        "KUBECONFIG": str(standin.kubeconfig), "LIMPET_KEY": str(standin.key), "LIMPET_SERVER_KEY": standin.server_key,
        "MAX_SESSIONS": "0", "RATE_LIMIT_MAX": "0",
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as directory:
        environment["LIMPET_SERVE_KEYS"] = f"{directory}/keys"
        try:
            for number in range(4):
                place = pathlib.Path(directory, str(number))
                place.mkdir()
                gateway = Gateway("/nowhere", place, environment={**environment, "LIMPET_SERVE_STATE_DIR": str(place / "state")}, whole=True)
                key = key if made else gateway.key("create", "anna")  # noqa: F821
                made.append(gateway)
                gateway.start()
            asyncio.run(measured(Crowd(key, made[:2], FEW), Crowd(key, made[2:], count), calls, rate))
        finally:
            for gateway in made:
                gateway.stop()
            shutil.rmtree(standin.directory)
    os._exit(0)  # the server of the doubles does not end


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
