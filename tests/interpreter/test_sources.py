"""What inspect finds of classes that cells define; of functions it is told by Python itself."""

import pytest

CLASSES = {
    "with functions": "class A:\n    def f(self):\n        return 1\n",
    "with a property": "class A:\n    @property\n    def f(self):\n        return 1\n",
    "with none": "class A(Exception):\n    note = 'of an A'\n",
    "decorated": "@dataclasses.dataclass\nclass A:\n    size: int = 1\n",
}


@pytest.mark.parametrize("code", CLASSES.values(), ids=CLASSES)
def test_source_of_a_class(session, code):
    session.run(f"import dataclasses, inspect\n\n{code}\n\nafter = 'class A: pass'")
    session.run("class B:\n    a = 1")
    assert session.value("inspect.getsource(A)") == code
    assert session.checkpoint().restore().value("inspect.getsource(A)") == code


def test_source_of_a_class_that_a_later_cell_defines_again(session):
    session.run("import inspect\nclass A:\n    def f(self): return 1\nfirst = A")
    session.run("class A:\n    def f(self): return 2")
    assert session.value("inspect.getsource(A), inspect.getsource(first)") == (
        "class A:\n    def f(self): return 2\n",
        "class A:\n    def f(self): return 1\n",
    )


def test_a_class_without_source(session):
    reply = session.run("import inspect\nA = type('A', (), {})\ninspect.getsource(A)")
    assert reply.error["name"] == "OSError"


def test_inspect_that_our_own_modules_import_first(session):
    session.run("from limpet_runtime import library\nwith library.Library(): import inspect\nclass A: a = 1")
    assert session.value("inspect.getsource(A)") == "class A: a = 1\n"
