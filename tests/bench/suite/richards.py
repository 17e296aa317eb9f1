"""A scheduler of tasks that send packets to each other: attributes, methods, queues."""
import collections


class Packet:
    def __init__(self, number, kind):
        self.number, self.kind, self.hops = number, kind, 0


class Task:
    def __init__(self, name, priority, scheduler):
        self.name, self.priority, self.scheduler = name, priority, scheduler
        self.queue, self.done = collections.deque(), 0
        scheduler.tasks.append(self)

    def is_ready(self):
        return bool(self.queue)

    def send(self, other, packet):
        packet.hops += 1
        other.queue.append(packet)

    def run(self):
        self.done += 1
        self.handle(self.queue.popleft())


class Worker(Task):
    def handle(self, packet):
        packet.number = (packet.number * 31 + 7) % 1009
        self.send(self.scheduler.handlers[packet.kind], packet)


class Handler(Task):
    def handle(self, packet):
        if packet.hops < 40:
            self.send(self.scheduler.worker, packet)
        else:
            self.scheduler.finished.append(packet)


class Scheduler:
    def __init__(self):
        self.tasks, self.finished = [], []
        self.handlers = {kind: Handler(kind, 2, self) for kind in ("device", "file")}
        self.worker = Worker("worker", 1, self)
        self.tasks.sort(key=lambda task: -task.priority)

    def run(self):
        while ready := [task for task in self.tasks if task.is_ready()]:
            ready[0].run()


def work():
    scheduler = Scheduler()
    for i in range(250):
        scheduler.worker.queue.append(Packet(i, "file" if i % 3 else "device"))
    scheduler.run()
    return sum(packet.number for packet in scheduler.finished), [task.done for task in scheduler.tasks]
