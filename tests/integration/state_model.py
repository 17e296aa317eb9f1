"""What the variables of a session must be: a model of a few integers, checkpoints and branches, and the steps
that put the model and a real session side by side.

A step is a tuple of plain values, so that a sequence can be printed, saved and replayed. Where the session has
a choice (to which call it went back after a fatal cell) the model takes what the reply says and checks that it
can be true: the variables must be exactly those after that call.
"""

NAMES = "abcd"
READ = f"{{n: globals()[n] for n in {NAMES!r} if n in globals()}}"

BURN = "import time; end = time.perf_counter() + 0.001\nwhile time.perf_counter() < end: pass\n"

FATAL = {
    "exit": ("import os; os._exit(7)", "exited"),
    "segfault": ("import ctypes; ctypes.string_at(0)", "crashed"),
    "kill": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "crashed"),
    "loop": ("sum(range(10**12))", "timeout"),
}


class Line:
    """One session or branch: its live variables, and what they were after each call."""

    def __init__(self, session, variables, execution_count, mode):
        self.session = session
        self.variables = dict(variables)
        self.execution_count = execution_count
        self.epoch = 1
        self.mode = mode
        self.after = {execution_count: dict(variables)}
        self.ancestors = frozenset()  # ids of the checkpoints that its state comes from
        self.durations = {}  # execution_count: seconds, of the calls since its state came from elsewhere

    def called(self, result):
        """Every call counts once, and none without being asked for."""
        self.execution_count += 1
        assert result.execution_count == self.execution_count, result
        self.durations[self.execution_count] = result.duration

    def kept(self, result, variables):
        self.called(result)
        assert (result.state, result.rolled_back_to, result.epoch) == ("kept", None, self.epoch), result
        self.variables = variables
        self.after[self.execution_count] = dict(variables)

    def went_back(self, result, exact, checkpoints):
        """After a call that left nothing: what the reply says must be possible, and the model follows it."""
        before = self.execution_count
        self.called(result)
        self.epoch += 1
        assert result.epoch == self.epoch, result
        by_hand = self.ancestors & set(checkpoints)
        if result.state == "lost":
            assert not exact and self.mode == "off" and not by_hand, (result, by_hand)
            self.begins_anew()
            return
        assert result.state == "rolled_back", result
        to = result.rolled_back_to
        if to.checkpoint in checkpoints:
            assert to.checkpoint in by_hand, (to, by_hand)
            variables, count, _ = checkpoints[to.checkpoint]
            assert to.execution_count == count, (to, count)
        else:
            assert to.execution_count in self.after, (to, sorted(self.after))
            variables = self.after[to.execution_count]
        if exact or self.mode == "always":
            assert variables == self.after[before], (to, before)
        self.lost_little(to.execution_count, before)
        self.never_count_twice(to.execution_count)
        self.variables = dict(variables)
        self.after[self.execution_count] = dict(variables)

    def lost_little(self, count, before):
        """Besides the call that ended it: five calls, or 50 ms of their own time."""
        lost = [seconds for at, seconds in self.durations.items() if count < at <= before]
        assert len(lost) <= 5 or sum(lost) <= 0.05 or self.mode == "off", (count, lost)
        self.durations = {at: seconds for at, seconds in self.durations.items() if at <= count}

    def never_count_twice(self, count):
        """A checkpoint of another branch may be of a later call than any of this one."""
        self.execution_count = max(self.execution_count, count)

    def replace(self, variables, ancestors):
        """The live state is another one: what was true after earlier calls can no longer be gone back to."""
        self.variables = dict(variables)
        self.after = {self.execution_count: dict(variables)}
        self.durations = {}
        self.ancestors = ancestors

    def begins_anew(self):
        """An interpreter without any call's effects, which is what count 0 stands for."""
        self.replace({}, frozenset())
        self.after[0] = {}


class Model:
    def __init__(self, controller, client, name, mode):
        self.controller = controller
        self.client = client
        self.mode = mode
        self.trunk = Line(client.open(name, checkpoint=mode, timeout=30), {}, 0, mode)
        self.lines = {"": self.trunk}
        self.checkpoints = {}  # id: (variables, execution_count, ancestors)
        self.made = 0
        self.steps = []

    def choose(self, random):
        """The next step, of those that make sense now."""
        line = random.choice(sorted(self.lines))
        name, value = random.choice(NAMES), random.randrange(1000)
        kinds = ["set"] * 8 + ["add"] * 8 + ["delete"] * 2 + ["error"] * 2 + ["undo"] * 3 + ["read"] * 3
        kinds += ["fatal"] * 3 + ["checkpoint"] * 2 + ["branch", "reset", "burst", "pause", "pause"]
        if self.checkpoints:
            kinds += ["rollback"] * 3 + ["drop"]
        if len(self.lines) > 1:
            kinds += ["commit", "close"]
        if random.random() < 0.004:
            return ("restart",)
        if random.random() < 0.004:
            return ("restart under", line, name)
        kind = random.choice(kinds)
        if kind in ("set", "error", "undo"):
            return (kind, line, name, value)
        if kind in ("add", "delete"):
            return (kind, line, name)
        if kind == "fatal":
            which = random.choice(["exit", "segfault", "kill"] * 8 + ["loop"])
            return (kind, line, which)
        if kind in ("rollback", "drop"):
            return (kind, line, random.choice(sorted(self.checkpoints)))
        if kind == "branch":
            at = random.choice([None, *sorted(self.checkpoints)])
            return (kind, line, at) if len(self.lines) < 4 else ("read", line)
        if kind in ("commit", "close"):
            return (kind, random.choice(sorted(set(self.lines) - {""})))
        return (kind,) if kind == "pause" else (kind, line)

    def apply(self, step):
        """Does it, and checks every word of the answer. A step that no longer fits is passed over."""
        kind, *arguments = step
        if arguments and kind not in ("commit", "close") and arguments[0] not in self.lines:
            return
        self.steps.append(step)
        getattr(self, "do_" + kind.replace(" ", "_"))(*arguments)

    # Calls

    def do_set(self, line, name, value):
        line = self.lines[line]
        result = line.session.run(f"{name} = {value}; {READ}")
        variables = {**line.variables, name: value}
        line.kept(result, variables)
        self.same(result.result, variables)

    def do_add(self, line, name):
        line = self.lines[line]
        result = line.session.run(f"{name} = globals().get({name!r}, 0) + 1; {READ}")
        variables = {**line.variables, name: line.variables.get(name, 0) + 1}
        line.kept(result, variables)
        self.same(result.result, variables)

    def do_delete(self, line, name):
        line = self.lines[line]
        result = line.session.run(f"globals().pop({name!r}, None)")
        line.kept(result, {key: value for key, value in line.variables.items() if key != name})

    def do_error(self, line, name, value):
        line = self.lines[line]
        result = line.session.run(f"{name} = {value}; 1 / 0")
        assert result.status == "error" and result.error.name == "ZeroDivisionError", result
        line.kept(result, {**line.variables, name: value})

    def do_undo(self, line, name, value):
        line = self.lines[line]
        result = line.session.run(f"{name} = {value}; 1 / 0", on_error="rollback")
        assert result.status == "error" and result.error.name == "ZeroDivisionError", result
        line.went_back(result, True, self.checkpoints)
        self.do_read_line(line)

    def do_read(self, line):
        self.do_read_line(self.lines[line])

    def do_read_line(self, line):
        result = line.session.run(READ)
        line.kept(result, line.variables)
        self.same(result.result, line.variables)

    def do_fatal(self, line, which):
        line = self.lines[line]
        code, status = FATAL[which]
        result = line.session.run(f"a = -1; {code}", timeout=2 if which == "loop" else None)
        assert result.status == status, result
        line.went_back(result, False, self.checkpoints)
        self.do_read_line(line)

    def do_reset(self, line):
        line = self.lines[line]
        line.session.reset()
        line.epoch += 1
        line.begins_anew()
        self.do_read_line(line)

    def do_burst(self, line, calls=120):
        """Calls of a millisecond without a pause between them, and one that is fatal."""
        burning, model = self.lines[line], self.lines[line].variables
        for i in range(calls):
            result = burning.session.run(f"{BURN}a = {i}")
            model = {**model, "a": i}
            burning.kept(result, model)
        self.do_fatal(line, "exit")

    def do_pause(self):
        """Long enough for an automatic checkpoint; whether there was one shows at the next fatal cell."""
        import time

        time.sleep(0.01)

    # Checkpoints and branches

    def do_checkpoint(self, line):
        line = self.lines[line]
        made = line.session.checkpoint(name=f"n{self.made}")
        self.made += 1
        assert made.name == f"n{self.made - 1}" and not made.automatic and not made.dropped
        self.checkpoints[made.id] = (dict(line.variables), made.execution_count, line.ancestors)
        line.ancestors |= {made.id}
        self.same_checkpoints()

    def do_rollback(self, line, identifier):
        if identifier not in self.checkpoints:
            return
        line = self.lines[line]
        variables, count, ancestors = self.checkpoints[identifier]
        done = line.session.rollback(identifier)
        line.epoch += 1
        assert (done.checkpoint, done.execution_count, done.epoch) == (identifier, count, line.epoch), done
        line.never_count_twice(count)
        line.replace(variables, ancestors | {identifier})
        line.after[count] = dict(variables)
        self.do_read_line(line)

    def do_drop(self, line, identifier):
        if self.checkpoints.pop(identifier, None):
            self.trunk.session.drop(identifier)
            self.same_checkpoints()

    def do_branch(self, line, at):
        if at is not None and at not in self.checkpoints:
            return
        origin = self.lines[line]
        name = f"b{self.made}"
        self.made += 1
        session = origin.session.branch(name, at=at)
        if at is None:
            variables, ancestors = origin.variables, origin.ancestors
            counts = [count for count, state in origin.after.items() if state == variables]
        else:
            variables, count, ancestors = self.checkpoints[at]
            ancestors, counts = ancestors | {at}, [count]
        result = session.run(READ)
        self.same(result.result, variables)
        assert (result.state, result.epoch) == ("kept", 1), result
        assert result.execution_count == max(origin.execution_count, *counts) + 1, result
        line = self.lines[session.name] = Line(session, variables, result.execution_count, self.mode)
        line.ancestors = ancestors
        line.after.update((count, dict(variables)) for count in counts)

    def do_commit(self, branch):
        if branch not in self.lines:
            return
        line = self.lines.pop(branch)
        self.trunk.session.commit(line.session)
        self.trunk.epoch += 1
        self.trunk.execution_count = max(self.trunk.execution_count, line.execution_count)
        self.trunk.replace(line.variables, line.ancestors)
        self.trunk.after = {**line.after, **self.trunk.after}
        self.do_read_line(self.trunk)

    def do_close(self, branch):
        if branch in self.lines:
            self.lines.pop(branch).session.close()

    # The controller

    def do_restart(self):
        self.controller.kill()
        self.controller.start()

    def do_restart_under(self, line, name):
        """The controller dies while a call runs; the client finds the answer with the next controller."""
        import threading

        line = self.lines[line]
        began, results = threading.Event(), []

        def call():
            code = f"print('on', flush=True); import time; time.sleep(0.3)\n{name} = globals().get({name!r}, 0) + 1\n{READ}"
            results.append(line.session.run(code, on_stdout=lambda text: began.set()))

        thread = threading.Thread(target=call)
        thread.start()
        assert began.wait(30)
        self.do_restart()
        thread.join(60)
        assert results, "the call was never answered"
        variables = {**line.variables, name: line.variables.get(name, 0) + 1}
        line.kept(results[0], variables)
        self.same(results[0].result, variables)

    # What must hold

    def same(self, text, variables):
        import ast

        assert ast.literal_eval(text) == variables, (text, variables)

    def same_checkpoints(self):
        kept = {c.id for c in self.trunk.session.checkpoints() if not c.automatic}
        assert kept == set(self.checkpoints), (kept, set(self.checkpoints))
