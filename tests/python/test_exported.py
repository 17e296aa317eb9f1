"""The adapters use what the package exports and nothing else of it: what they can do, others can."""

import ast
from pathlib import Path

import limpet
import pytest

PACKAGE = Path(limpet.__file__).parent
ADAPTERS = ("_adapters", "jupyter", "langgraph", "mcp")
FILES = [file for name in ADAPTERS for file in sorted((PACKAGE / name).glob("*.py"))]
PUBLIC_MODULES = {"errors", "results", "state"}
SHARED = "_adapters"  # what adapters have in common, and held to the same


def trees(files):
    return [ast.parse(file.read_text()) for file in files]


def attributes(trees):
    """The private names of objects, in the place of each: (name of what it is taken of, name)."""
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
                yield getattr(node.value, "id", None), node.attr


def own(trees):
    methods = {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    return methods | {name for of, name in attributes(trees) if of in ("self", "cls")}


CORE = trees([*PACKAGE.glob("*.py"), *(PACKAGE / "_sync").glob("*.py"), *(PACKAGE / "_async").glob("*.py")])
PRIVATE = own(CORE)


def test_imports():
    for file, node in ((file, node) for file in FILES for node in ast.walk(ast.parse(file.read_text()))):
        if isinstance(node, ast.Import):
            assert not [name.name for name in node.names if name.name.startswith("limpet._")]
        if not isinstance(node, ast.ImportFrom):
            continue
        module = node.module or ""
        if node.level >= 2 and module:
            assert module in PUBLIC_MODULES or module.partition(".")[0] == SHARED, f"{file.name} imports the private module {module}"
        elif node.level >= 2:
            private = {name.name for name in node.names} - {*limpet.__all__} - PUBLIC_MODULES
            assert not private, f"{file.name} imports {private}, which limpet does not export"
        else:
            assert not module.startswith("limpet._")


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_attributes(adapter):
    parsed = trees((PACKAGE / adapter).glob("*.py"))
    used = {name for of, name in attributes(parsed) if of not in ("self", "cls")}
    assert {"_client", "_target", "_request"} <= PRIVATE
    assert not used & (PRIVATE - own(parsed))
