"""scripts/check: who may include whom, and that the law of the supervisor's folders has no circle."""

import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SUPERVISOR = "guest/supervisor/"


@pytest.fixture(scope="module")
def check():
    sys.dont_write_bytecode = True
    loader = SourceFileLoader("limpet_check", str(ROOT / "scripts/check"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("limpet_check", loader))
    loader.exec_module(module)
    return module


def problems(check, path, included):
    return list(check.check_includes(path, f'#include "{included}"\n'))


@pytest.mark.parametrize("path, included", [
    ("guest/supervisor/branch/branch.c", "guest/supervisor/call/call.h"),
    ("guest/supervisor/call/call.c", "guest/supervisor/order/order.h"),
    ("guest/supervisor/order/order.c", "guest/supervisor/session/supervisor.h"),
    ("guest/supervisor/checkpoint/checkpoint.c", "guest/supervisor/branch/branch.h"),
    ("guest/supervisor/order/order.c", "guest/supervisor/call/internal.h"),
    ("guest/supervisor/command_line.c", "guest/supervisor/session/supervisor.h"),
    ("guest/supervisor/link/link.c", "host/link/listener.h"),
])
def test_upwards_across_and_into_what_is_internal_is_forbidden(check, path, included):
    assert len(problems(check, path, included)) == 1


@pytest.mark.parametrize("path, included", [
    ("guest/supervisor/call/call.c", "guest/supervisor/branch/branch.h"),
    ("guest/supervisor/call/executor.c", "guest/supervisor/call/internal.h"),
    ("guest/supervisor/session/supervisor.h", "guest/supervisor/order/order.h"),
    ("guest/supervisor/process/spawn.c", "guest/supervisor/command_line.h"),
    ("guest/supervisor/link/link.c", "proto/base/log.h"),
])
def test_downwards_is_allowed(check, path, included):
    assert problems(check, path, included) == []


def test_the_folders_of_the_supervisor_form_layers(check):
    below = {folder: {other for other, _ in check.LAW if other != folder and other != SUPERVISOR and other in may}
             for folder, may in check.LAW if folder.startswith(SUPERVISOR)}
    while below:
        lowest = {folder for folder, others in below.items() if not others & set(below)}
        assert lowest, f"a circle: {sorted(below)}"
        below = {folder: others for folder, others in below.items() if folder not in lowest}


def test_the_tree_keeps_the_law(check):
    found = [problem for path in check.tracked(["*.c", "*.h"])
             for problem in check.check_includes(path, (ROOT / path).read_text())]
    assert found == []


def test_a_type_name_means_one_thing(check):
    places = {"Door": ["host/a.h", "host/b.c"], "Roof": ["guest/b.c", "proto/a.h"], "Wall": ["guest/b.c", "host/a.h"]}
    assert list(check.check_types(places)) == ["host/b.c: the type Door is another one in host/a.h",
                                               "proto/a.h: the type Roof is another one in guest/b.c"]


def test_types_are_what_has_a_body(check):
    text = "typedef struct Door Door;\ntypedef struct Wall {\n};\nstruct House {\n};\ntypedef enum Floor { LOW } Floor;\n"
    assert check.defined_types("host/a.h", text) == ["Wall", "House", "Floor"]
    assert check.defined_types("tests/unit/a.c", text) == []


def test_modules_that_include_each_other_are_found(check):
    uses = {"host/a": {"host/b"}, "host/b": {"host/c"}, "host/c": {"host/b", "host/d"}, "host/d": set()}
    assert list(check.check_circles(uses)) == ["these include each other: host/b, host/c"]
    assert list(check.check_circles({**uses, "host/c": {"host/d"}})) == []


def test_what_several_sources_share_is_no_module(check):
    assert list(check.neighbours("host/sandbox/sandbox.c", '#include "host/sandbox/internal.h"\n#include "host/sandbox/guest.h"\n')) == \
        ["host/sandbox/guest"]
