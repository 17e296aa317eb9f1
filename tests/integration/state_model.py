"""What the variables of sessions must be: a model of integers, of things that count and that no pickle holds, of checkpoints and
branches, and the steps that put the model and real sessions side by side. life_model.py has the steps by which sessions end,
sleep, multiply and move.

A step is a tuple of plain values, so that a sequence can be printed, saved and replayed. Where the session has
a choice (to which call it went back after a fatal cell) the model takes what the reply says and checks that it
can be true: the variables must be exactly those after that call.
"""

import ast
import time

INTEGERS = "abc"
# How each begins, at 0, and goes on by one.
COUNTERS = {
    "database": ("import sqlite3; {0} = sqlite3.connect(':memory:'); {0}.execute('create table t (x)')", "{0}.execute('insert into t values (1)')"),
    "file": ("{0} = open('counter', 'w+')", "{0}.write('x')"),
    "generator": ("{0} = (i for i in range(10**9)); next({0})", "next({0})"),
    "thread": (
        "import itertools, queue, threading\n"
        "    {0} = queue.SimpleQueue(), queue.SimpleQueue()\n"
        "    def _count(asked, told):\n"
        "        n = 0\n"
        "        while True: n += asked.get(); told.put(n)\n"
        "    threading.Thread(target=_count, args={0}, daemon=True).start()",
        "{0}[0].put(1); {0}[1].get()",
    ),
}  # fmt: skip
NAMES = (*INTEGERS, *COUNTERS)
NEVER_PICKLED = {"database", "generator", "thread"}
READ = f"""
def _read(x):
    if isinstance(x, int): return x
    if hasattr(x, "execute"): return x.execute("select count(*) from t").fetchone()[0]
    if hasattr(x, "tell"): return x.tell()
    if hasattr(x, "gi_frame"): return x.gi_frame.f_locals["i"]
    x[0].put(0)
    return x[1].get()
{{n: _read(globals()[n]) for n in {NAMES!r} if n in globals()}}
"""

BURN = "import time; end = time.perf_counter() + 0.001\nwhile time.perf_counter() < end: pass\n"

FATAL = {
    "exit": ("import os; os._exit(7)", "exited"),
    "segfault": ("import ctypes; ctypes.string_at(0)", "crashed"),
    "kill": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "crashed"),
    "loop": ("sum(range(10**12))", "timeout"),
}


class Family:
    """What shares a container: a session, its branches, and their checkpoints."""

    def __init__(self, trunk):
        self.trunk = trunk
        self.checkpoints = {}  # id: (variables, execution_count, ancestors)
        trunk.family = self


class Line:
    """One session or branch: its live variables, and what they were after each call."""

    family = None

    def __init__(self, session, variables, execution_count, mode):
        self.session = session
        self.variables = dict(variables)
        self.execution_count = execution_count
        self.epoch = 1
        self.mode = mode
        self.after = {execution_count: dict(variables)}
        self.ancestors = frozenset()  # ids of the checkpoints that its state comes from
        self.durations = {}  # execution_count: seconds, of the calls since its state came from elsewhere
        self.missing = None  # what the next result must say could not come; None: it says nothing of that

    def called(self, result):
        """Every call counts once, and none without being asked for."""
        self.execution_count += 1
        assert result.execution_count == self.execution_count, result
        self.durations[self.execution_count] = result.duration
        missing, self.missing = self.missing, None
        told = result.restored and {note.partition(":")[0] for note in result.restored}
        assert (told or set()) == (missing or set()), (result.restored, missing)
        assert (told is None) == (missing is None), (result.restored, missing)

    def kept(self, result, variables):
        self.called(result)
        assert (result.state, result.rolled_back_to, result.epoch) == ("kept", None, self.epoch), result
        self.variables = variables
        self.after[self.execution_count] = dict(variables)

    def went_back(self, result, exact):
        """After a call that left nothing: what the reply says must be possible, and the model follows it."""
        before = self.execution_count
        checkpoints = self.family.checkpoints
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


def same(text, variables):
    assert ast.literal_eval(text) == variables, (text, variables)


class StateModel:
    """Steps within a container."""

    def __init__(self, mode):
        self.mode = mode
        self.lines = {}  # by the names of their sessions
        self.made = 0
        self.steps = []

    def begin(self, session, variables=(), execution_count=0):
        """A session in a container of its own."""
        line = self.lines[session.name] = Line(session, dict(variables), execution_count, self.mode)
        Family(line)
        return line

    def new_name(self):
        self.made += 1
        return f"n{self.made}"

    def trunks(self):
        return sorted(name for name, line in self.lines.items() if line.family.trunk is line)

    def members(self, line):
        return [name for name, other in self.lines.items() if other.family is line.family]

    def choose_state(self, random):
        """A step of those that make sense now."""
        name = random.choice(sorted(self.lines))
        line = self.lines[name]
        checkpoints, branches = sorted(line.family.checkpoints), sorted({*self.members(line)} - {line.family.trunk.session.name})
        kinds = ["set"] * 6 + ["add"] * 8 + ["count"] * 10 + ["delete"] * 2 + ["error"] * 2 + ["undo"] * 3 + ["read"] * 3
        kinds += ["fatal"] * 4 + ["checkpoint"] * 2 + ["branch", "reset", "burst", "pause", "pause", "timeout", "interrupt"]
        if checkpoints:
            kinds += ["rollback"] * 3 + ["drop"]
        if branches:
            kinds += ["commit"] * 2 + ["close"] * 3
        kind = random.choice(kinds)
        if kind in ("set", "error", "undo"):
            return (kind, name, random.choice(INTEGERS), random.randrange(1000))
        if kind == "add":
            return (kind, name, random.choice(INTEGERS))
        if kind == "count":
            return (kind, name, random.choice(list(COUNTERS)))
        if kind == "delete":
            return (kind, name, random.choice(NAMES))
        if kind == "fatal":
            return (kind, name, random.choice(["exit", "segfault", "kill"] * 8 + ["loop"]))
        if kind in ("rollback", "drop"):
            return (kind, name, random.choice(checkpoints))
        if kind == "branch":
            return (kind, name, random.choice([None, *checkpoints])) if len(branches) < 3 else ("read", name)
        return (kind, random.choice(branches) if kind in ("commit", "close") else name)

    def apply(self, step):
        """Does it, and checks every word of the answer. A step that no longer fits is passed over."""
        kind, *arguments = step
        if arguments and arguments[0] not in self.lines:
            return
        self.steps.append(step)
        getattr(self, "do_" + kind.replace(" ", "_"))(*(self.lines[argument] if i == 0 else argument for i, argument in enumerate(arguments)))

    # Calls

    def run(self, line, code, variables, **options):
        """A call that leaves these."""
        result = line.session.run(f"{code}\n{READ}", **options)
        line.kept(result, variables)
        same(result.result, variables)

    def do_set(self, line, name, value):
        self.run(line, f"{name} = {value}", {**line.variables, name: value})

    def do_add(self, line, name):
        self.run(line, f"{name} = globals().get({name!r}, 0) + 1", {**line.variables, name: line.variables.get(name, 0) + 1})

    def do_count(self, line, name):
        begin, go_on = (code.format(name) for code in COUNTERS[name])
        code = f"if {name!r} not in globals():\n    {begin}\n{go_on}"
        self.run(line, code, {**line.variables, name: line.variables.get(name, 0) + 1})

    def do_delete(self, line, name):
        self.run(line, f"globals().pop({name!r}, None)", {key: value for key, value in line.variables.items() if key != name})

    def do_error(self, line, name, value):
        result = line.session.run(f"{name} = {value}; 1 / 0")
        assert result.status == "error" and result.error.name == "ZeroDivisionError", result
        line.kept(result, {**line.variables, name: value})

    def do_undo(self, line, name, value):
        result = line.session.run(f"{name} = {value}; 1 / 0", on_error="rollback")
        assert result.status == "error" and result.error.name == "ZeroDivisionError", result
        line.went_back(result, True)
        self.do_read(line)

    def do_read(self, line):
        self.run(line, "", line.variables)

    def do_fatal(self, line, which):
        code, status = FATAL[which]
        result = line.session.run(f"a = -1; {code}", timeout=2 if which == "loop" else None)
        assert result.status == status, result
        line.went_back(result, False)
        self.do_read(line)

    def do_timeout(self, line):
        result = line.session.run("a = -2; import time; time.sleep(60)", timeout=0.2)
        assert (result.status, result.error.name) == ("timeout", "KeyboardInterrupt"), result
        line.kept(result, {**line.variables, "a": -2})

    def do_interrupt(self, line):
        code = "a = -3; import time; print('on', flush=True); time.sleep(60)"
        result = line.session.run(code, on_stdout=lambda text: line.session.interrupt())
        assert (result.status, result.error.name) == ("interrupted", "KeyboardInterrupt"), result
        line.kept(result, {**line.variables, "a": -3})

    def do_reset(self, line):
        line.session.reset()
        line.epoch += 1
        line.begins_anew()
        self.do_read(line)

    def do_burst(self, line, calls=120):
        """Calls of a millisecond without a pause between them, and one that is fatal."""
        model = line.variables
        for i in range(calls):
            result = line.session.run(f"{BURN}a = {i}")
            model = {**model, "a": i}
            line.kept(result, model)
        self.do_fatal(line, "exit")

    def do_pause(self, line):
        """Long enough for an automatic checkpoint; whether there was one shows at the next fatal cell."""
        time.sleep(0.01)

    # Checkpoints and branches

    def do_checkpoint(self, line):
        name = self.new_name()
        made = line.session.checkpoint(name=name)
        assert made.name == name and not made.automatic and not made.dropped
        line.family.checkpoints[made.id] = (dict(line.variables), made.execution_count, line.ancestors)
        line.ancestors |= {made.id}
        self.same_checkpoints(line)

    def do_rollback(self, line, identifier):
        if identifier not in line.family.checkpoints:
            return
        variables, count, ancestors = line.family.checkpoints[identifier]
        done = line.session.rollback(identifier)
        line.epoch += 1
        assert (done.checkpoint, done.execution_count, done.epoch) == (identifier, count, line.epoch), done
        line.never_count_twice(count)
        line.replace(variables, ancestors | {identifier})
        line.after[count] = dict(variables)
        self.do_read(line)

    def do_drop(self, line, identifier):
        if line.family.checkpoints.pop(identifier, None):
            line.session.drop(identifier)
            self.same_checkpoints(line)

    def do_branch(self, line, at):
        checkpoints = line.family.checkpoints
        if at is not None and at not in checkpoints:
            return
        session = line.session.branch(self.new_name(), at=at)
        if at is None:
            variables, ancestors = line.variables, line.ancestors
            counts = [count for count, state in line.after.items() if state == variables]
        else:
            variables, count, ancestors = checkpoints[at]
            ancestors, counts = ancestors | {at}, [count]
        result = session.run(READ)
        same(result.result, variables)
        assert (result.state, result.epoch) == ("kept", 1), result
        assert result.execution_count == max(line.execution_count, *counts) + 1, result
        branch = self.lines[session.name] = Line(session, variables, result.execution_count, self.mode)
        branch.family = line.family
        branch.ancestors = ancestors
        branch.after.update((count, dict(variables)) for count in counts)

    def do_commit(self, line):
        trunk = line.family.trunk
        if line is trunk:
            return
        del self.lines[line.session.name]
        trunk.session.commit(line.session)
        trunk.epoch += 1
        trunk.execution_count = max(trunk.execution_count, line.execution_count)
        trunk.replace(line.variables, line.ancestors)
        trunk.after = {**line.after, **trunk.after}
        self.do_read(trunk)

    def do_close(self, line):
        """A branch; a session with all of its branches."""
        line.session.close()
        for name in self.members(line) if line is line.family.trunk else [line.session.name]:
            del self.lines[name]

    def same_checkpoints(self, line):
        kept = {c.id for c in line.session.checkpoints() if not c.automatic}
        assert kept == set(line.family.checkpoints), (kept, set(line.family.checkpoints))
