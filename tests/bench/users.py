"""Users of a gateway, each with a session and a connection of its own, who think between one call and the next.

usage: users.py SOCKET USERS

Opens the sessions at the controller and starts `limpet serve` for it; prints "ready". For each line `COUNT NANOSECONDS` on standard
input they make COUNT calls together, on average so far apart, and the nanoseconds of each are printed. A user thinks for so many of
these times as there are users, give or take a half: the fewer there are, the oftener each one calls.
"""
import asyncio
import contextlib
import random
import re
import sys
import tempfile
import time

import limpet

from adapters_driver import LINE, gateway, request

MEMORY = "64m"
AT_ONCE = 4  # sessions that are opened


def name(number):
    return f"user-{number}"


async def open_sessions(socket, users):
    async with limpet.AsyncClient(socket, autostart=False) as client:
        turns = asyncio.Semaphore(AT_ONCE)

        async def open_one(number):
            async with turns:
                await client.open(name(number), memory=MEMORY, timeout=60)

        await asyncio.gather(*map(open_one, range(users)))


class User:
    def __init__(self, number, reader, writer):
        self.asked = request(f"/v1/sessions/{name(number)}/run", {"code": LINE})
        self.reader, self.writer = reader, writer

    async def call(self):
        start = time.perf_counter_ns()
        self.writer.write(self.asked)
        head = await self.reader.readuntil(b"\r\n\r\n")
        body = await self.reader.readexactly(int(re.search(rb"content-length: (\d+)", head)[1]))
        took = time.perf_counter_ns() - start
        if b'"status":"ok"' not in body:
            raise RuntimeError(f"a call came to {body[:200]!r}")
        return took

    async def work(self, calls, thinks):
        await asyncio.sleep(random.uniform(0, thinks))
        times = []
        for _ in range(calls):
            times.append(await self.call())
            await asyncio.sleep(random.uniform(0.5, 1.5) * thinks)
        return times


async def serve(socket, users, port):
    await open_sessions(socket, users)
    everybody = [User(number, *await asyncio.open_connection("127.0.0.1", port)) for number in range(users)]
    for each in everybody:
        await each.call()
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        count, gap = map(int, line.split())
        thinks = gap * 1e-9 * users
        times = await asyncio.gather(*(each.work(max(count // users, 1), thinks) for each in everybody))
        print(*(took for some in times for took in some), flush=True)


def main():
    socket, users = sys.argv[1], int(sys.argv[2])
    random.seed(users)
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        http = stack.enter_context(gateway(socket, directory))
        asyncio.run(serve(socket, users, http.base_url.port))


if __name__ == "__main__":
    main()
