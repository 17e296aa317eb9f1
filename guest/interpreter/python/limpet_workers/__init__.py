"""Gives a process that multiprocessing has started anew the functions and classes of the cells, and what these refer to by
name, with the values of that moment. What cannot be pickled is missing there.
"""

import functools
import io
import os
import pickle
import sys
import types

from limpet_saving import pickling

MAIN = os.path.join(os.path.dirname(__file__), "main.py")  # the main module of such a process
CACHED = type(functools.lru_cache(abs))


class Pickler(pickling.Pickler):
    def reducer_override(self, obj):
        if type(obj) is CACHED and obj.__module__ == "__main__":
            return cached, (obj.__wrapped__, obj.cache_parameters())
        return super().reducer_override(obj)


def cached(function, parameters):
    return functools.lru_cache(**parameters)(function)


def is_definition(value):
    return isinstance(value, (type, types.FunctionType, CACHED)) and value.__module__ == "__main__"


def codes(value):
    """The code of a function, or of those of a class."""
    if isinstance(value, type):
        members = list(vars(value).values())
        for member in members:
            inside = [getattr(member, name, None) for name in ("__func__", "fget", "fset", "fdel")]
            yield from (code for each in (member, *inside) if isinstance(each, types.FunctionType) for code in codes(each))
        return
    function = getattr(value, "__wrapped__", None) if isinstance(value, CACHED) else value
    todo = [function.__code__] if isinstance(function, types.FunctionType) else []
    while todo:
        code = todo.pop()
        todo += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        yield code


def pickled(value, namespace):
    """Its pickle, or None."""
    file = io.BytesIO()
    try:
        Pickler(file, namespace, set()).dump(value)
    except Exception:
        return None
    return file.getvalue()


def definitions(namespace):
    names = {name: value for name, value in list(namespace.items()) if is_definition(value)}
    referred = {name for value in names.values() for code in codes(value) for name in code.co_names}
    names.update({name: namespace[name] for name in referred & namespace.keys() if name[:2] != "__"})
    pickles = {name: pickled(value, namespace) for name, value in names.items()}
    return {name: data for name, data in pickles.items() if data is not None}


class Sent:
    """As it is unpickled, `definitions` become an attribute of what prepares the process, before that runs MAIN."""

    def __init__(self, prepare, definitions):
        self.prepare = prepare
        self.definitions = definitions

    def __reduce__(self):
        return setattr, (self.prepare, "definitions", self.definitions)


def add_main(data, spawn):
    found = definitions(sys.modules["__main__"].__dict__)
    if found:
        data["init_main_from_path"] = MAIN
        data["definitions"] = Sent(spawn.prepare, found)


def define(namespace):
    """In such a process, where `namespace` is that of its main module in the making."""
    from multiprocessing import spawn

    before = sys.modules["__main__"]
    sys.modules["__main__"] = sys.modules[namespace["__name__"]]  # where functions look for their globals
    try:
        for name, data in vars(spawn.prepare).pop("definitions", {}).items():
            try:
                namespace[name] = pickle.loads(data)
            except Exception:
                pass  # missing, as what could not be pickled
    finally:
        sys.modules["__main__"] = before
