"""The adapters for agent frameworks, with the real frameworks and real controllers. Only models are scripted."""

import os

import pytest

from tests.support.controllers import client, limpetd, name, own_limpetd, quiet  # noqa: F401
from tests.support.langgraph import call, sandbox  # noqa: F401
from tests.support.preloaded import Preloaded


@pytest.fixture
def isolating(limpetd):  # noqa: F811
    if not limpetd.isolates:
        pytest.skip("needs an engine with containers: there is no /data without")


@pytest.fixture(scope="package")
def preloaded(tmp_path_factory):
    made = Preloaded(tmp_path_factory.mktemp("preloaded"), "langchain.agents", "langgraph.checkpoint.memory")
    yield made
    made.close()


@pytest.fixture
def program(preloaded, tmp_path):
    """program(text, *arguments): starts Python with that text, in a process that has imported LangGraph. Its `stdout` is text."""
    started = []

    def start(text, *arguments):
        path = tmp_path / f"program{len(started)}.py"
        path.write_text(text, encoding="utf-8")
        reading, writing = os.pipe()
        with open(os.devnull) as nothing, open(writing, "wb") as output:
            process = preloaded.start([nothing.fileno(), output.fileno(), 2], dict(os.environ), str(path), *arguments)
        process.stdout = open(reading, encoding="utf-8")
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()
