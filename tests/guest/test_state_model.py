"""Random calls and orders against a model: whatever happens, the variables are what the records say."""

import contextlib
import os
import random
import signal
import time

import pytest

from tests.support.wire import BRANCH, CHECKPOINT, CLOSE, COMMIT, DROP, RESET, ROLLBACK

STEPS = 60
ENDS = ["os._exit(3)", "os.kill(os.getpid(), 11)", "os.kill(os.getpid(), 9)"]


class Line:
    """What the variable `x` of a branch was after each call that its state came from."""

    def __init__(self, values, count, epoch=1):
        self.values = dict(values)
        self.count = count
        self.epoch = epoch

    @property
    def newest(self):
        return max(self.values)

    @property
    def value(self):
        return self.values[self.newest]

    def until(self, count):
        assert count in self.values, "it went back to a call that is not in its line"
        return {number: value for number, value in self.values.items() if number <= count}


class Model:
    def __init__(self, guest, seed, killed=False):
        self.random = random.Random(seed)
        self.guest, self.controller = guest, guest.controller
        self.killed = killed  # processes end at any moment, of which the next record of a branch tells
        self.lines = {0: Line({0: None}, 0)}
        self.kept = {}  # id: values, of those made by hand
        self.numbers = iter(range(1, 10**6))
        self.log = []

    def any_line(self):
        return self.random.choice(sorted(self.lines))

    def see_epoch(self, line, epoch, changed):
        assert epoch == line.epoch + changed or (self.killed and epoch >= line.epoch), self.log[-9:]
        line.epoch = epoch

    def settle(self, number, record):
        """What the record says of the state becomes the model's."""
        line = self.lines[number]
        line.count += 1
        assert record["execution_count"] == line.count and record["branch"] == number
        if record["state"] == "rolled_back":
            line.values = line.until(record["rolled_back_to"]["execution_count"])
        elif record["state"] == "lost":
            line.values = {0: None}
        self.see_epoch(line, record["epoch"], record["state"] != "kept")

    def call(self, number, code, **options):
        record = self.controller.run(code, branch=number, **options)
        self.log.append((number, code, options, record["status"], record["state"], record["rolled_back_to"]))
        self.settle(number, record)
        return record

    def call_well(self, number, code):
        """Where its interpreter has just been killed a call may end with that."""
        record = self.call(number, code)
        while record["status"] != "ok":
            assert self.killed and record["status"] in ("crashed", "failed"), record
            record = self.call(number, code)
        return record

    def read(self, number):
        record = self.call_well(number, "print(globals().get('x'))")
        line = self.lines[number]
        assert record["stdout"].strip() == str(line.value), (record, line.values, self.log[-9:])
        line.values[line.count] = line.value

    def do_set(self):
        number, value = self.any_line(), next(self.numbers)
        self.call_well(number, f"import os; x = {value}")
        self.lines[number].values[self.lines[number].count] = value

    def do_end(self):
        number = self.any_line()
        record = self.call(number, f"import os; x = 'gone'; {self.random.choice(ENDS)}")
        assert record["state"] != "kept"
        self.read(number)

    def do_undo(self):
        number = self.any_line()
        before = self.lines[number].newest
        record = self.call(number, "x = 'gone'; 1/0", on_error="rollback")
        if not self.killed:
            assert (record["status"], record["state"]) == ("error", "rolled_back")
            assert record["rolled_back_to"]["execution_count"] == before
        self.read(number)

    def do_checkpoint(self):
        number = self.any_line()
        reply = self.controller.ask(CHECKPOINT, branch=number)
        self.log.append(("checkpoint", number, reply))
        if isinstance(reply, tuple):
            assert self.killed
            return
        count = reply["checkpoint"]["execution_count"]
        assert count == self.lines[number].newest or self.killed
        self.kept[reply["checkpoint"]["id"]] = self.lines[number].until(count)

    def any_kept(self):
        return self.random.choice(sorted(self.kept)) if self.kept else None

    def do_rollback(self):
        number, identity = self.any_line(), self.any_kept()
        if not identity:
            return
        reply = self.controller.ask(ROLLBACK, branch=number, checkpoint=identity)
        self.log.append(("rollback", number, identity, reply))
        if isinstance(reply, tuple):
            assert self.killed
            del self.kept[identity]
        else:
            line = self.lines[number]
            line.values = dict(self.kept[identity])
            line.count = max(line.count, line.newest)
            self.see_epoch(line, reply["epoch"], 1)
            assert reply["execution_count"] == line.newest
        self.read(number)

    def do_drop(self):
        identity = self.any_kept()
        if identity:
            reply = self.controller.ask(DROP, checkpoint=identity)
            assert reply == {} or self.killed
            del self.kept[identity]

    def do_branch(self):
        if len(self.lines) > 4:
            return
        origin, number = self.any_line(), max(self.lines) + next(self.numbers)
        identity = self.random.choice([None, self.any_kept()])
        body = {"checkpoint": identity} if identity else {}
        self.read(origin)
        reply = self.controller.ask(BRANCH, branch=number, **{"from": origin}, **body)
        self.log.append(("branch", number, origin, identity, reply))
        if isinstance(reply, tuple):
            assert self.killed
            return
        values = self.kept[identity] if identity else self.lines[origin].values
        line = self.lines[number] = Line(values, max(self.lines[origin].count, max(values)))
        assert (reply["execution_count"], reply["epoch"]) == (line.count, 1)
        self.read(number)

    def other_line(self):
        others = sorted(set(self.lines) - {0})
        return self.random.choice(others) if others else None

    def do_commit(self):
        source = self.other_line()
        if source is None:
            return
        target = self.random.choice(sorted(set(self.lines) - {source}))
        reply = self.controller.ask(COMMIT, branch=target, **{"from": source})
        self.log.append(("commit", target, source, reply))
        old, new = self.lines[target], self.lines.pop(source)
        line = self.lines[target] = Line(new.values, max(old.count, new.count), old.epoch)
        assert reply["execution_count"] == line.count
        self.see_epoch(line, reply["epoch"], 1)
        self.read(target)

    def do_close(self):
        number = self.other_line()
        if number is not None:
            assert self.controller.ask(CLOSE, branch=number) == {}
            del self.lines[number]

    def do_reset(self):
        number = self.any_line()
        reply = self.controller.ask(RESET, branch=number)
        self.log.append(("reset", number, reply))
        self.lines[number].values = {0: None}
        self.see_epoch(self.lines[number], reply["epoch"], 1)

    def do_read(self):
        self.read(self.any_line())

    def do_pause(self):
        time.sleep(self.random.choice([0.001, 0.003, 0.01]))

    def step(self):
        operations = [self.do_set] * 4 + [self.do_end] * 2 + [self.do_checkpoint] * 2 + [self.do_pause] * 3
        operations += [self.do_undo, self.do_rollback, self.do_drop, self.do_branch, self.do_commit]
        operations += [self.do_close, self.do_reset, self.do_read]
        self.random.choice(operations)()


@pytest.fixture(params=["session", pytest.param("spare", marks=pytest.mark.long)])
def begin(request, keep, keep_claimed):
    """begin(interpreter, mode): a session from the first day, or one that was a spare."""
    return keep if request.param == "session" else keep_claimed


@pytest.mark.parametrize("mode", ["auto", "always", "off"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 4))])
def test_random(begin, interpreter, mode, seed):
    model = Model(begin(interpreter, mode), seed)
    for _ in range(STEPS):
        model.step()


@pytest.mark.parametrize("mode", ["auto", "always", "off"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 3))])
def test_random_with_copies_that_are_killed(begin, interpreter, mode, seed):
    """From outside, at any moment: also interpreters while no call runs."""
    guest = begin(interpreter, mode)
    model = Model(guest, seed, killed=True)
    for _ in range(STEPS):
        model.step()
        if model.random.random() < 0.2:
            with contextlib.suppress(ProcessLookupError, IndexError):
                os.kill(model.random.choice(guest.children()), signal.SIGKILL)
