"""The command, and with it the client for C, over a network."""

import hashlib
import json
import os
import pty
import signal
import stat
import subprocess
import threading

import pytest

from .door import PATIENCE, wait_for

LIMPET = os.path.join(os.environ.get("LIMPET_BUILD", "build/bin"), "limpet")


@pytest.fixture
def limpet(door, tmp_path):
    return command_of(door, tmp_path)


def command_of(door, home):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LIMPET_") or "SANIT" in name}
    environment["XDG_CONFIG_HOME"] = str(home)
    environment["LIMPET_ARTIFACTS"] = os.path.join(door.directory, "copies", home.name)

    def run(*words, key=door.key.path, server_key=door.server_key, **more):
        command = [LIMPET, "--connect", door.address, "--key", key, f"--server-key={server_key}", *words]
        more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
        return subprocess.run(command, text=True, env=environment, timeout=PATIENCE, **more)

    return run


def test_sessions_live_on_from_command_to_command(limpet, name):
    assert limpet("run", "-s", name, "-c", "x = 41").returncode == 0
    ran = limpet("run", "-s", name, "-c", "print(x + 1)")
    assert (ran.returncode, ran.stdout) == (0, "42\n")
    assert name in [row["session"] for row in json.loads(limpet("ls", "--json").stdout)["sessions"]]
    assert limpet("close", name).returncode == 0


def test_much_output_and_large_files_go_through(limpet, name, tmp_path):
    ran = limpet("run", "-s", name, "-c", "for i in range(1_000_000): print(i)")
    assert ran.stdout == "".join(f"{i}\n" for i in range(1_000_000))
    (tmp_path / "up").write_bytes(os.urandom(20 << 20))
    assert limpet("put", str(tmp_path / "up"), f"{name}:large").returncode == 0
    assert limpet("get", f"{name}:large", str(tmp_path / "down")).returncode == 0
    assert (tmp_path / "up").read_bytes() == (tmp_path / "down").read_bytes()
    limpet("close", name)


def test_an_artifact_is_fetched_and_checked(limpet, name, tmp_path):
    ran = limpet("run", "--json", "-s", name, "-c", "import os; _ = open('artifacts/a b', 'wb').write(os.urandom(20 << 20))")
    record = json.loads(ran.stdout)
    assert limpet("artifact", record["run_id"], "/session/artifacts/a b", str(tmp_path)).returncode == 0
    data = (tmp_path / "a b").read_bytes()
    assert hashlib.sha256(data).hexdigest() == record["artifact_info"]["/session/artifacts/a b"]["sha256"]
    limpet("run", "-s", name, "-c", "_ = open('artifacts/a b', 'w').write('another')")
    late = limpet("artifact", record["run_id"], "/session/artifacts/a b", str(tmp_path))
    assert late.returncode and "a later call has replaced it" in late.stderr
    assert (tmp_path / "a b").read_bytes() == data and os.listdir(tmp_path) == ["a b"]
    assert "has published no file" in limpet("artifact", record["run_id"], "/etc/passwd", str(tmp_path)).stderr
    limpet("close", name)


def test_a_person_sees_how_far_the_copy_of_an_artifact_is(limpet, name):
    screen, terminal = pty.openpty()
    made = "import os; _ = open('artifacts/large', 'wb').write(os.urandom(5 << 20))"
    seen = [b""]
    reader = threading.Thread(target=lambda: seen.extend(iter(lambda: read_screen(screen), b"")))
    reader.start()
    ran = limpet("run", "-s", name, "-c", made, stderr=terminal)
    os.close(terminal)
    reader.join(PATIENCE)
    os.close(screen)
    assert ran.returncode == 0
    assert b" of 5.0M /session/artifacts/large\r" in b"".join(seen)
    limpet("close", name)


def read_screen(screen):
    try:
        return os.read(screen, 4096)
    except OSError:  # nobody has the other end any more
        return b""


def test_the_record_names_files_of_this_machine(door, limpet, name, tmp_path):
    made = "import os; os.mkdir('artifacts/d'); _ = open('artifacts/d/ü ..%', 'wb').write(os.urandom(5 << 20))"
    record = json.loads(limpet("run", "--json", "-s", name, "-c", made).stdout)
    [(path, local)] = record["artifacts"].items()
    assert (path, local) == ("/session/artifacts/d/ü ..%", os.path.join(door.directory, "copies", tmp_path.name, name, "d", "%C3%BC ..%25"))
    with open(local, "rb") as file:
        assert hashlib.sha256(file.read()).hexdigest() == record["artifact_info"][path]["sha256"]
    os.unlink(local)
    os.mkdir(local)  # in its way
    record = json.loads(limpet("run", "--json", "-s", name, "-c", made.replace("mkdir", "listdir")).stdout)
    assert record["artifacts"] == {} and "could not be copied" in record["skipped"][path]
    limpet("close", name)


def test_a_call_is_asked_again_when_the_network_process_is_killed(own_door, tmp_path):
    limpet = command_of(own_door, tmp_path)
    go = tmp_path / "go"
    code = f"import os, time\nn = globals().get('n', 0) + 1\nopen({str(tmp_path / 'begun')!r}, 'w').close()\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\nprint(n)"
    command = [LIMPET, "--connect", own_door.address, "run", "-s", "s", "-c", code]
    environment = {**os.environ, "LIMPET_KEY": own_door.key.path, "LIMPET_SERVER_KEY": own_door.server_key}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        wait_for((tmp_path / "begun").exists)
        os.kill(own_door.process(), signal.SIGKILL)
        wait_for(lambda: own_door.said("process ended, starting another name=network"))
        go.touch()
        assert running.communicate(timeout=PATIENCE)[0] == "1\n"
    assert running.returncode == 0
    assert limpet("run", "-s", "s", "-c", "print(n)").stdout == "1\n"


@pytest.mark.parametrize(
    "wrong, said", [("key", "not in its authorized_keys"), ("server_key", "another one than the server key")]
)
def test_wrong_keys_are_said(door, limpet, wrong, said):
    other = door.new_key()
    ran = limpet("ls", **{wrong: other.path if wrong == "key" else other.public})
    assert ran.returncode == 125
    assert said in ran.stderr


def test_what_is_missing_is_said(limpet, tmp_path):
    assert "limpet keygen" in limpet("ls", key=str(tmp_path / "nothing")).stderr
    assert "limpetd --check" in limpet("ls", server_key="short").stderr


def test_keygen_makes_a_pair_that_is_let_in_and_replaces_none(own_door, tmp_path):
    limpet = command_of(own_door, tmp_path)
    path = tmp_path / "limpet" / "limpet.key_secret"
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    environment.pop("LIMPET_KEY", None)
    made = subprocess.run([LIMPET, "keygen"], capture_output=True, text=True, env=environment)
    public = made.stdout.strip()
    assert (made.returncode, len(public)) == (0, 40)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert public in path.read_text()
    again = subprocess.run([LIMPET, "keygen"], capture_output=True, text=True, env=environment)
    assert again.returncode == 125 and "it is there already" in again.stderr
    own_door.authorize(f"{public} owner={os.geteuid()}")
    own_door.limpetd.process.send_signal(signal.SIGHUP)
    wait_for(lambda: own_door.said("authorized keys read"))
    assert limpet("run", "-c", "print(1)", key=str(path)).stdout == "1\n"
    assert limpet("ls").returncode == 125
