"""Asking an interpreter for its namespace.

LIMPET_TEST_PATH names directories with further libraries for the interpreter.
"""

import contextlib
import os

import pytest

from tests.support.wire import NAMESPACE

from .harness import Interpreter

FIELDS = ("name", "type", "shape", "dtype", "bytes", "repr")


def namespace(session):
    session.channel.send(NAMESPACE, 5, {})
    message = session.wait(NAMESPACE)
    assert message[2] == 5 and set(message[3]) == {"names", "more"}
    return message[3]


def variables(session):
    """By name; all of them."""
    body = namespace(session)
    assert body["more"] == 0
    for variable in body["names"]:
        assert tuple(variable) == FIELDS
    return {variable["name"]: variable for variable in body["names"]}


@contextlib.contextmanager
def interpreter_with(module, name):
    """An interpreter that has imported a library, or a skipped test."""
    interpreter = Interpreter()
    try:
        path = [entry for entry in os.environ.get("LIMPET_TEST_PATH", "").split(":") if entry]
        interpreter.run(f"import sys\nsys.path += {path!r}")
        error = interpreter.run(f"import {module} as {name}").error
        if error and error["name"] == "ModuleNotFoundError":
            pytest.skip(f"the interpreter has no {module}")
        assert error is None, error["traceback"]
        yield interpreter
    finally:
        interpreter.close()
