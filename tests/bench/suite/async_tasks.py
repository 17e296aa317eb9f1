"""Tasks of asyncio that hand each other numbers."""
import asyncio


async def feed(queue, count):
    for i in range(count):
        await queue.put(i)
        if i % 10 == 0:
            await asyncio.sleep(0)
    await queue.put(None)


async def drain(queue):
    total = 0
    while (item := await queue.get()) is not None:
        total += item
    return total


async def together():
    queues = [asyncio.Queue(maxsize=8) for _ in range(10)]
    feeders = [asyncio.create_task(feed(queue, 500)) for queue in queues]
    totals = await asyncio.gather(*(drain(queue) for queue in queues))
    await asyncio.gather(*feeders)
    return sum(totals)


def work():
    return asyncio.run(together())
