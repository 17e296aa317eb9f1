"""limpet_browser.endpoint(): what code of a session asks the supervisor, which stands here as a socket that answers."""

import os
import pathlib
import socket
import subprocess
import sys
import threading

import pytest

PYTHON = pathlib.Path(__file__).parents[2] / "guest/interpreter/python"
CODE = "import limpet_browser; print(limpet_browser.endpoint())"


@pytest.fixture
def ask(tmp_path):
    """Runs endpoint() where a supervisor gives these answers; what it printed, and how many it has taken."""

    def ask(*answers):
        taken = []
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(tmp_path / "browser"))
            listener.listen()

            def answer_all():
                for answer in answers:
                    asker, _ = listener.accept()
                    taken.append(answer)
                    with asker:
                        asker.sendall(answer.encode() + b"\n")

            threading.Thread(target=answer_all, daemon=True).start()
            environment = {**os.environ, "PYTHONPATH": str(PYTHON), "LIMPET_BROWSER_SOCKET": str(tmp_path / "browser")}
            asked = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, timeout=60)
        return asked.stdout + asked.stderr, len(taken)

    return ask


@pytest.fixture
def living():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"ws://127.0.0.1:{server.getsockname()[1]}/living"


@pytest.fixture
def dying():
    """The address of a browser that has crashed: its port is closed, and its process has not ended yet."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"ws://127.0.0.1:{bound.getsockname()[1]}/dying"


def test_one_that_runs_is_asked_for_once(ask, living):
    assert ask(f"at {living}") == (f"{living}\n", 1)


def test_one_whose_port_is_closed_is_asked_for_again(ask, dying, living):
    assert ask(f"at {dying}", f"at {dying}", f"at {living}") == (f"{living}\n", 3)


def test_why_there_is_none(ask, dying):
    said, _ = ask(f"at {dying}", "failed it ended with exit code 3: no such thing")
    assert "BrowserError: there is no browser: it ended with exit code 3: no such thing" in said
