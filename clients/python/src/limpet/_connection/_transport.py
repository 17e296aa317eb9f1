"""The choice between limpet._native, which is C, and limpet._connection._pure, which is everywhere.

``LIMPET_NATIVE=0`` is for the latter; a path is that of the module to take, which has to be there. By default it is the
one of the package, where there is one.
"""

from __future__ import annotations

import importlib.util
import os
from types import ModuleType

from . import _pure


def _load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("limpet._native", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"LIMPET_NATIVE={path}: it is no extension module of Python's")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _chosen() -> ModuleType:
    wanted = os.environ.get("LIMPET_NATIVE")
    if wanted == "0":
        return _pure
    if wanted:
        return _load(wanted)
    try:
        return importlib.import_module("limpet._native")
    except ImportError:
        return _pure


_module = _chosen()
Wire: type[_pure.Wire] = _module.Wire
Shape: type[_pure.Shape] = _module.Shape
NATIVE = _module is not _pure
