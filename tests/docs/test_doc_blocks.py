"""Every block of every document runs, from the state to which the document has led."""

import importlib.util
import re

import pytest
from tests.docs.conftest import engine
from tests.docs.documents import PATHS, ROOT, RUNS, SHOWN, blocks
from tests.docs.prompt import run_python
from tests.docs.shell import run_console, run_sh
from tests.support.needs import WITHOUT

CONTAINER = re.compile(r"/session|/data|pandas|--disk|penguins")
MORE = ("inspect_ai", "llm_sandbox", "pydantic_ai", "smolagents")  # frameworks of build/environments/frameworks
DOCUMENTS = [path for path in PATHS if any(block.language in RUNS and not block.not_run for block in blocks(path))]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_block_names_a_language(path):
    for block in blocks(path):
        assert block.language in RUNS + SHOWN, f"{block.place}: '{block.language}' is none of {', '.join(RUNS + SHOWN)}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_blocks_run(path, place):
    runnable = [block for block in blocks(path) if block.language in RUNS and not block.not_run]
    text = "\n".join(block.text for block in runnable)
    if missing := [name for name in MORE if f"from limpet.{name} " in text and not importlib.util.find_spec(name)]:
        pytest.skip(f"without {missing[0]}: the suite docs-frameworks has this document")
    if engine() == "local" and CONTAINER.search(text):
        pytest.skip("the document speaks of containers, and the engine is local")
    for word, package in (("langchain", "langchain"), ("limpet serve", "uvicorn"), ("limpet jupyter", "ipykernel")):
        if word in text and not importlib.util.find_spec(package):
            if "network" in WITHOUT:
                pytest.skip("without network")
            pytest.fail(f"no {package} in this Python; LIMPET_PYTHON names another one, as build/environments/adapters/bin/python")
    wrong = [each for block in runnable for each in run(place, block)]
    assert not wrong, "\n\n".join(wrong)


def run(place, block):
    if block.language in ("python", "cell"):
        return run_python(place.prompt, block)
    return (run_sh if block.language == "sh" else run_console)(place.shell, block)
