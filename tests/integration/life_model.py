"""The model of state_model.py with the ways in which sessions sleep, multiply, move and end: by their clients, by kills from
outside, and while the controller is killed."""

import os
import signal
import tempfile
import threading
import time

import limpet

from .killed import Asking, supervisor, supervisors, wait_for
from .state_model import NEVER_PICKLED, READ, StateModel, same
from .test_sleep import sleep_after_kill

SESSIONS = 3
ASLEEP = ".limpet-saved-idle"


class LifeModel(StateModel):
    def __init__(self, host, mode):
        super().__init__(mode)
        self.host = host
        self.archives = []  # (path, variables, execution_count)
        self.directory = tempfile.TemporaryDirectory()
        self.do_open()

    def close(self):
        for name in self.trunks():
            self.do_close(self.lines[name])
        self.directory.cleanup()

    def unpickled(self, variables):
        """What is left of them where pickles alone bring them, and what is told of the others."""
        return {name: value for name, value in variables.items() if name not in NEVER_PICKLED}, NEVER_PICKLED & set(variables)

    def choose(self, generator):
        """The next step, of those that make sense now."""
        trunks = self.trunks()
        if not trunks or generator.random() < 0.02 and len(trunks) < SESSIONS:
            return ("open",)
        if generator.random() < 0.7:
            return self.choose_state(generator)
        kinds = ["sleep"] * 6 + ["fork"] * 3 + ["kill interpreter"] * 3 + ["save", "restore", "restart"]
        kinds += ["doze", "doze", "restart under", "sleep under", "fork under", "forget memory", "kill supervisor"]
        kind = generator.choice(kinds)
        line = generator.choice(trunks if kind in ("sleep", "doze", "sleep under", "forget memory", "kill supervisor") else sorted(self.lines))
        if kind in ("fork", "fork under", "restore") and len(trunks) >= SESSIONS:
            return ("close", generator.choice(trunks))
        if kind in ("sleep under", "fork under"):
            return (kind, line, generator.choice([0, 0.003, 0.01, 0.03, 0.1]))
        if kind == "kill interpreter":
            return (kind, line, generator.choice(["call", "sleep"]))
        if kind in ("restart", "restore"):
            return (kind,)
        return (kind, line)

    def do_open(self):
        """One that is new, though another of its name was there before."""
        if "first" not in self.lines:
            self.begin(self.host.client.open("first", checkpoint=self.mode, timeout=30))

    # Sleep

    def alone(self, line):
        return len(self.members(line)) == 1

    def is_asleep(self, line):
        return self.status(line.session.name) == "saved"

    def status(self, name):
        return next((row.status for row in self.host.client.sessions() if row.session == name), None)

    def wait_gone(self, line):
        wait_for(lambda: supervisors(self.host.files(line.session.name)) == [])

    def do_doze(self, line):
        """It is wanted again at once: it goes on, or its container was gone."""
        if self.alone(line) and not self.is_asleep(line) and line.missing is None:
            line.session.sleep()
            result = line.session.run(READ)
            same(result.result, line.variables)
            if result.restored is not None:
                self.slept(line)
            line.kept(result, line.variables)

    def slept(self, line):
        """Its container is gone, and its checkpoints with it."""
        line.family.checkpoints.clear()
        line.replace(line.variables, frozenset())
        line.missing = line.missing or set()

    def do_sleep(self, line):
        if not self.alone(line):
            try:
                line.session.sleep()
            except limpet.Busy:
                return
            raise AssertionError("a session with branches was saved")
        if not self.is_asleep(line):
            line.session.sleep()
            assert self.is_asleep(line)
            self.wait_gone(line)
            self.slept(line)

    def do_forget_memory(self, line):
        """The pickled variables are all that is left."""
        if self.alone(line) and not self.is_asleep(line):
            self.do_sleep(line)
            os.unlink(self.host.files(line.session.name, ASLEEP, "memory"))
            variables, line.missing = self.unpickled(line.variables)
            line.replace(variables, frozenset())

    # Others like it

    def is_like(self, session, line_variables, execution_count, memory):
        made = self.begin(session, line_variables, execution_count)
        made.missing = set()
        if not memory:
            variables, made.missing = self.unpickled(line_variables)
            made.replace(variables, frozenset())
        self.do_read(made)

    def do_fork(self, line):
        fork = line.session.fork(self.new_name())
        self.is_like(fork, line.variables, line.execution_count, self.host.limpetd.isolates)
        self.do_read(line)

    def do_save(self, line):
        path = os.path.join(self.directory.name, self.new_name())
        saved = line.session.save(path)
        assert bool(saved.memory) == self.host.limpetd.isolates, saved
        self.archives = [*self.archives[-3:], (path, dict(line.variables), line.execution_count)]
        self.do_read(line)

    def do_restore(self):
        if self.archives:
            path, variables, count = self.archives[-1]
            session = self.host.client.open(self.new_name(), restore=path)
            assert session.restored_memory == self.host.limpetd.isolates, session.restored
            self.is_like(session, variables, count, session.restored_memory)

    # Kills

    def do_kill_interpreter(self, line, then):
        """Between two calls, of which the next one tells, also where the session has slept since. One that comes before the end was
        seen may end with it."""
        result = line.session.run("import os; os.getpid()")
        line.kept(result, line.variables)
        line.session.exec(["kill", "-9", result.result])
        sleeps = then == "sleep" and self.alone(line)
        if sleeps:
            sleep_after_kill(line.session)
            self.wait_gone(line)
            line.missing = set()
        result = line.session.run(READ)
        line.went_back(result, False)
        if result.status == "ok":
            same(result.result, line.variables)
        else:
            assert result.status == "crashed", result
        if sleeps:
            line.family.checkpoints.clear()
            line.replace(line.variables, frozenset())
            line.after[line.execution_count - 1] = dict(line.variables)  # it woke with the count of the call before
        self.do_read(line)

    def do_kill_supervisor(self, line):
        """It takes along all that is in the container, and is told to whoever asks for it."""
        name = line.session.name
        self.do_read(line)
        os.kill(supervisor(self.host, name), signal.SIGKILL)
        wait_for(lambda: self.status(name) is None)
        for member in self.members(line):
            try:
                self.lines.pop(member).session.run(READ)
            except limpet.NoSuchSession as error:
                assert "its variables are gone" in str(error), error
            else:
                raise AssertionError("a session without a container ran a call")

    def do_restart(self):
        self.host.again()

    def do_restart_under(self, line):
        """The controller dies while a call runs, which may have to wake the session; the client finds the answer with the next
        one."""
        began = threading.Event()
        code = f"print('on', flush=True); import time; time.sleep(0.3)\na = globals().get('a', 0) + 1\n{READ}"
        call = Asking(line.session.run, code, on_stdout=lambda text: began.set())
        assert began.wait(60)
        self.host.again()
        result = call.result()
        line.kept(result, {**line.variables, "a": line.variables.get("a", 0) + 1})
        same(result.result, line.variables)

    def killed_meanwhile(self, after, ask, *args):
        """The answer of something that the controller is killed over; None where there is none."""
        asking = Asking(ask, *args)
        time.sleep(after)
        self.host.again()
        try:
            return asking.result()
        except (limpet.Unavailable, limpet.Busy, limpet.SaveFailed, limpet.NoSuchSession, limpet.SessionExists, limpet.Internal):
            return None

    def do_sleep_under(self, line, after):
        if self.alone(line) and not self.is_asleep(line):
            self.killed_meanwhile(after, line.session.sleep)
            wait_for(lambda: self.status(line.session.name) in ("saved", "idle"))
            if self.is_asleep(line):
                self.wait_gone(line)
                self.slept(line)
            self.do_read(line)

    def do_fork_under(self, line, after):
        """There is a whole one, or none."""
        name = self.new_name()
        self.killed_meanwhile(after, line.session.fork, name)
        if self.status(name):
            self.is_like(self.host.client.attach(name), line.variables, line.execution_count, self.host.limpetd.isolates)
        self.do_read(line)
