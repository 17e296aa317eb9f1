"""Clients of several users: what a test has them do is done in a process that is theirs alone."""

import os
import pickle
import warnings

import limpet

GROUP = "daemon"  # any that is there will do


class Refused(Exception):
    """What a user was told instead."""

    def __init__(self, name, text):
        super().__init__(f"{name}: {text}")
        self.name = name


class User:
    def __init__(self, uid, socket, groups=()):
        self.uid, self.socket, self.groups = uid, socket, list(groups)

    def do(self, work):
        """What work() gives in a process of this user."""
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(ours)
            os._exit(self._answer(work, theirs))
        os.close(theirs)
        with os.fdopen(ours, "rb") as answers:
            answer = answers.read()
        os.waitpid(child, 0)
        kind, *rest = pickle.loads(answer)
        if kind == "refused":
            raise Refused(*rest)
        return rest[0]

    def _answer(self, work, pipe):
        self._become()
        try:
            answer = ("done", work())
        except Exception as error:
            answer = ("refused", type(error).__name__, str(error))
        with os.fdopen(pipe, "wb") as answers:
            pickle.dump(answer, answers)
        return 0

    def _become(self):
        os.setgroups(self.groups)
        os.setresgid(self.uid, self.uid, self.uid)
        os.setresuid(self.uid, self.uid, self.uid)

    def ask(self, work):
        """What work(client) gives there."""

        def with_client():
            with warnings.catch_warnings(), limpet.Client(self.socket, autostart=False) as client:
                warnings.simplefilter("ignore")
                return work(client)

        return self.do(with_client)

    def run(self, session, code):
        return self.ask(lambda client: client.open(session).run(code).result)

    def names(self):
        return self.ask(lambda client: sorted(row.session for row in client.sessions()))

