"""Answers the questions of cells as a client does."""

import msgpack

from tests.support.wire import ANSWER, ASK, EXECUTED


class Question:
    def __init__(self, message):
        version, kind, self.id, body = message
        assert (version, kind, set(body)) == (1, ASK, {"ask", "kind", "name", "payload"})
        self.number, self.kind, self.name = body["ask"], body["kind"], body["name"]
        self.payload = body["payload"] and msgpack.unpackb(body["payload"])

    @property
    def asked(self):
        return self.kind, self.name


def next_question(session):
    question = Question(session.wait(ASK))
    assert question.id == session.count
    return question


def send_answer(session, question, **answer):
    session.channel.send(ANSWER, question.id, {"ask": question.number, **answer})


def answer_value(session, question, value):
    send_answer(session, question, payload=msgpack.packb(value, use_bin_type=True))


def answer_error(session, question, name, message):
    send_answer(session, question, error={"name": name, "message": message})


def questions_of(session):
    """Those of the running cell, until it ends; its `executed` stays queued."""
    while True:
        message = session.channel.take(ASK)
        if message is not None:
            yield Question(message)
        elif any(message[1] == EXECUTED for message in session.messages):
            return
        else:
            session.pump(60)


def run_answered(session, code, answers):
    """Runs a cell whose questions answers(question) answers; the reply, and what was asked."""
    asked = []
    session.start(code, asks=True)
    for question in questions_of(session):
        asked.append(question)
        answer_value(session, question, answers(question))
    return session.finish(), asked


def run_with_lines(session, code, *lines):
    """The same where lines of input are asked for."""
    rest = iter(lines)
    return run_answered(session, code, lambda question: next(rest))
