"""What `limpet_tools` offers: functions of the host, as the client of the running call has them."""

import _limpet
from limpet_runtime import asks, library
from limpet_runtime.asks import ToolError

NOBODY = "this call was run without tools: limpet_tools offers nothing in it"

known = (None, {})  # the number of a cell, and the functions there are in it


def make_function(name, signature, doc):
    with library.Library():
        from limpet_runtime import signatures

    def function(*args, **kwargs):
        if not _limpet.is_answered():
            raise RuntimeError(f"{NOBODY}, so {name}() cannot be called")
        return asks.ask("tool", name, (args, kwargs))

    parsed = signatures.parse(signature)
    function.__name__ = function.__qualname__ = name
    function.__module__ = "limpet_tools"
    function.__doc__ = doc if parsed else f"{name}{signature}\n\n{doc}"
    if parsed:
        function.__signature__ = parsed
    return function


def is_description(item):
    return isinstance(item, dict) and all(isinstance(item.get(key), str) for key in ("name", "signature", "doc"))


def functions():
    """By name. Asked for once in each call."""
    global known
    cell = _limpet.cell()
    if known[0] != cell:
        answer = asks.ask("tools")
        if not isinstance(answer, list) or not all(map(is_description, answer)):
            raise RuntimeError("the client did not say which functions it offers")
        offered = {item["name"]: item for item in answer if not item["name"].startswith("_")}
        known = cell, {
            name: make_function(name, item["signature"], item["doc"]) for name, item in offered.items()
        }
    return known[1]


def missing(name):
    """Why there is no function of that name."""
    if not _limpet.is_answered():
        return NOBODY
    return f"limpet_tools offers no {name}; it offers {', '.join(sorted(functions())) or 'nothing'}"


def __getattr__(name):
    if name == "__all__" and _limpet.is_answered():
        return sorted(functions())
    if name.startswith("_"):
        raise AttributeError(f"module 'limpet_tools' has no attribute {name!r}")
    function = functions().get(name) if _limpet.is_answered() else None
    if function is None:
        raise AttributeError(missing(name))
    return function


def __dir__():
    return ["ToolError", *(sorted(functions()) if _limpet.is_answered() else ())]


__all__ = ["ToolError", "__dir__", "__getattr__"]
