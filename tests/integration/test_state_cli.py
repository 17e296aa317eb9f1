"""The commands about state, on a real controller: what a person does at a terminal."""

import json
import os
import subprocess

import pytest

LIMPET = os.path.join(os.environ.get("LIMPET_BUILD", "build/bin"), "limpet")
DIE = "import os; os._exit(3)"


class Terminal:
    def __init__(self, controller):
        self.environment = os.environ | {"LIMPET_SOCKET": controller.socket, "LIMPET_AUTOSTART": "0"}

    def start(self, *words):
        return subprocess.Popen([LIMPET, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=self.environment)  # fmt: skip

    def __call__(self, *words):
        """Exit status, standard output, standard error. The warning that the engine does not isolate is not meant."""
        process = self.start(*words)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, "".join(
            line for line in err.splitlines(True) if not line.startswith("limpet: warning: ")
        )

    def good(self, *words):
        """Standard output of a command that must work without a word."""
        status, out, err = self(*words)
        assert (status, err) == (0, ""), words
        return out

    def json(self, *words):
        return json.loads(self.good(*words))

    def value(self, session, code):
        return self.good("run", "-s", session, "-c", code).strip()


@pytest.fixture
def limpet(limpetd):
    return Terminal(limpetd)


@pytest.fixture
def name(limpet, name):
    limpet.good("run", "-s", name, "-c", "x = 41")
    yield name
    limpet("close", name)


def test_back_to_a_checkpoint(limpet, name):
    assert limpet.good("checkpoint", "--name", "before", name).endswith(" 'before', after call 1\n")
    limpet.good("run", "-s", name, "-c", "x = 0")
    assert limpet.good("rollback", name, "before") == f"{name} is as after call 1; epoch 2\n"
    assert limpet.value(name, "x") == "41"


def test_checkpoints_are_listed_until_they_are_dropped(limpet, name):
    taken = limpet.json("checkpoint", "--json", "--name", "mine", name)["checkpoint"]
    assert (taken["name"], taken["session"], taken["automatic"]) == ("mine", name, False)
    listed = limpet.json("checkpoints", "--json", name)["checkpoints"]
    assert [c["id"] for c in listed if c["name"] == "mine"] == [taken["id"]]
    rows = [row.split() for row in limpet.good("checkpoints", name).splitlines()]
    assert [taken["id"], "mine", name, "1"] in [row[:4] for row in rows]
    limpet.good("drop", name, "mine")
    assert "mine" not in limpet.good("checkpoints", name)
    status, out, err = limpet("rollback", name, "mine")
    assert (status, out) == (125, "") and err.startswith("limpet: NoSuchCheckpoint: ")


def test_a_checkpoint_with_files(limpet, name, tmp_path):
    (tmp_path / "kept").write_text("kept\n")
    limpet.good("put", str(tmp_path / "kept"), f"{name}:kept")
    limpet.good("checkpoint", "--files", "--name", "all", name)
    limpet.good("run", "-s", name, "-c", "open('kept', 'w').write('gone'); open('new', 'w').close()")
    assert ", /session too" in limpet.good("rollback", name, "all")
    assert limpet.good("get", f"{name}:kept", "-") == "kept\n"
    assert limpet("get", f"{name}:new", "-")[2].startswith("limpet: NoSuchFile: ")


def test_a_branch_goes_its_own_way_until_it_is_committed(limpet, name):
    opened = limpet.json("branch", "--json", name, "try")
    assert (opened["session"], opened["created"]) == (f"{name}/try", True)
    limpet.good("run", "-s", f"{name}/try", "-c", "x += 1")
    assert (limpet.value(name, "x"), limpet.value(f"{name}/try", "x")) == ("41", "42")
    assert {row["session"] for row in limpet.json("ls", "--json")["sessions"]} >= {name, f"{name}/try"}
    assert limpet("branch", name, "try")[2].startswith("limpet: BranchExists: ")
    assert limpet.json("commit", "--json", name, "try")["epoch"] == 2
    assert limpet.value(name, "x") == "42"
    assert f"{name}/try" not in limpet.good("ls")


def test_a_branch_of_a_checkpoint(limpet, name):
    limpet.good("checkpoint", "--name", "before", name)
    limpet.good("run", "-s", name, "-c", "x = 0")
    limpet.good("branch", "--at", "before", name, "old")
    assert limpet.value(f"{name}/old", "x") == "41"
    limpet.good("close", f"{name}/old")
    assert limpet.value(name, "x") == "0"


def test_the_variables(limpet, name):
    limpet.good("run", "-s", name, "-c", "words = ['a', 'b']; _hidden = 1")
    assert [row.split() for row in limpet.good("namespace", name).splitlines()] == [
        ["NAME", "TYPE", "SHAPE", "DTYPE", "SIZE", "VALUE"],
        ["x", "int", "-", "-", "-", "41"],
        ["words", "list", "2", "-", "-", "-"],
    ]
    names = limpet.json("namespace", "--json", name)
    assert ([v["name"] for v in names["names"]], names["more"]) == (["x", "words"], 0)


def test_a_call_that_fails_leaves_nothing_behind(limpet, name):
    status, out, err = limpet("run", "-s", name, "--on-error", "rollback", "-c", "x = 0; 1 / 0")
    assert status == 1 and "ZeroDivisionError" in err
    assert err.endswith("limpet: rolled back: the variables are as they were after call 1\n")
    assert limpet.value(name, "x") == "41"


def test_a_loss_is_told_with_what_became_of_the_state(limpet, name):
    limpet.good("close", name)
    limpet.good("open", "--checkpoint", "always", name)
    limpet.good("run", "-s", name, "-c", "x = 41")
    status, out, err = limpet("run", "-s", name, "-c", DIE)
    assert (status, out, err.count("\n")) == (137, "", 1)
    assert err.startswith("limpet: exited: Exited: ") and "after call 1" in err
    assert limpet.value(name, "x") == "41"


def test_without_checkpoints_the_variables_are_lost(limpet, name):
    limpet.good("close", name)
    limpet.good("open", "--checkpoint", "off", name)
    limpet.good("run", "-s", name, "-c", "x = 41")
    status, out, err = limpet("run", "-s", name, "-c", DIE)
    assert (status, err.count("\n")) == (137, 1) and "lost" in err
    assert limpet("run", "-s", name, "-c", "x")[0] == 1


def test_sessions_are_kept_for_the_next_controller(own_limpetd, name_of_its_own):
    own_limpetd.start()
    limpet = Terminal(own_limpetd)
    limpet.good("run", "-s", name_of_its_own, "-c", "x = 41")
    limpet.good("shutdown", "--keep")
    assert own_limpetd.process.wait(120) == 0
    own_limpetd.start()
    assert limpet.value(name_of_its_own, "x") == "41"
    limpet.good("shutdown")
    assert own_limpetd.process.wait(120) == 0
    assert own_limpetd.leftovers() == {}


@pytest.mark.parametrize("end", ["killed", "shut down"])
def test_a_call_outlives_its_controller(own_limpetd, name_of_its_own, end):
    own_limpetd.start()
    limpet = Terminal(own_limpetd)
    limpet.good("open", name_of_its_own)
    code = "import os, time\nfor i in range(3):\n    print(i, flush=True)\n    while not os.path.exists('go'): time.sleep(0.01)"
    process = limpet.start("run", "-s", name_of_its_own, "-c", code)
    assert process.stdout.readline() == "0\n"
    if end == "killed":
        own_limpetd.kill()
    else:
        limpet.good("shutdown", "--keep")
        own_limpetd.process.wait(120)
    own_limpetd.start()
    with own_limpetd.client() as client:
        client.open(name_of_its_own).files.write("go", "")
    out, _ = process.communicate(timeout=120)
    assert (process.returncode, out) == (0, "1\n2\n")
    limpet.good("shutdown")


@pytest.fixture
def name_of_its_own():
    return "kept"
