"""Signatures of the host's functions, from text that is parsed and never run."""

import ast
import inspect

LENGTH_MAX = 4096

TYPES = {kind.__name__: kind for kind in (bool, int, float, str, bytes, list, tuple, dict)}


class Source:
    """An annotation or a default that is shown as it was written."""

    def __init__(self, node):
        self.text = ast.unparse(node)

    def __repr__(self):
        return self.text


def annotation(node):
    if node is None:
        return inspect.Parameter.empty
    return TYPES.get(node.id) or Source(node) if isinstance(node, ast.Name) else Source(node)


def default(node):
    if node is None:
        return inspect.Parameter.empty
    try:
        return ast.literal_eval(node)
    except ValueError:
        return Source(node)


def parameters(arguments):
    positional = arguments.posonlyargs + arguments.args
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    for i, (argument, value) in enumerate(zip(positional, defaults)):
        kind = inspect.Parameter.POSITIONAL_ONLY
        if i >= len(arguments.posonlyargs):
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        yield argument, kind, value
    if arguments.vararg:
        yield arguments.vararg, inspect.Parameter.VAR_POSITIONAL, None
    for argument, value in zip(arguments.kwonlyargs, arguments.kw_defaults):
        yield argument, inspect.Parameter.KEYWORD_ONLY, value
    if arguments.kwarg:
        yield arguments.kwarg, inspect.Parameter.VAR_KEYWORD, None


def read(text):
    (function,) = ast.parse(f"def function{text}: pass").body
    if not isinstance(function, ast.FunctionDef) or len(function.body) != 1:
        raise ValueError
    return inspect.Signature(
        [
            inspect.Parameter(argument.arg, kind, default=default(value), annotation=annotation(argument.annotation))
            for argument, kind, value in parameters(function.args)
        ],
        return_annotation=annotation(function.returns) if function.returns else inspect.Signature.empty,
    )


def parse(text):
    """The inspect.Signature of a text such as `(query: str, limit=5) -> list`, or None where it is none."""
    if len(text) > LENGTH_MAX:
        return None
    try:
        return read(text)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None
