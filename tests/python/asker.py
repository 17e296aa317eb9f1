"""A fake controller's side of questions: cells that ask, and what they were answered."""

import queue

import msgpack



class Cell:
    """A call whose code asks these questions, one after the other unless ``at_once``, and then ends.

    A question is (kind, name, value); what came back is in ``answers`` by its number, from 1 on.
    """

    def __init__(self, controller, *questions, at_once=False, ends=True):
        self.questions = questions
        self.at_once = at_once
        self.ends = ends
        self.answers = {}
        self.joined = queue.Queue()  # requests that have joined it
        self.answered = queue.Queue()  # bodies
        self.request = None
        controller.on("run", self.run).on("answer", self.answer)

    def run(self, request):
        self.request = request
        self.joined.put(request)
        self.ask()

    def waiting(self):
        return [number for number in range(1, len(self.questions) + 1) if number not in self.answers]

    def ask(self):
        waiting = self.waiting()
        for number in waiting if self.at_once else waiting[:1]:
            self.send(number)
        if not waiting and self.ends:
            self.end()

    def send(self, number):
        kind, name, value = self.questions[number - 1]
        payload = value if value is None or isinstance(value, bytes) else msgpack.packb(value)
        self.request.send("ask", {"ask": number, "kind": kind, "name": name, "payload": payload})

    def answer(self, request):
        assert request.id == self.request.id
        number = request.body["ask"]
        self.answers[number] = request.body
        self.answered.put(request.body)
        if not self.at_once or not self.waiting():
            self.ask()

    def end(self, **fields):
        self.request.record(**fields)

    def value(self, number=1):
        body = self.answers[number]
        assert set(body) == {"ask", "payload"}, body
        return msgpack.unpackb(body["payload"])

    def error(self, number=1):
        body = self.answers[number]
        assert set(body) == {"ask", "error"}, body
        return body["error"]["name"], body["error"]["message"]


def call(name, *args, **kwargs):
    return "tool", name, [list(args), kwargs]
