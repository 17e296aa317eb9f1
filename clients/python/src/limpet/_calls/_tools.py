"""Functions of the host that code in the sandbox may call: what is taken for one, and how it is called."""

from __future__ import annotations

import functools
import inspect
import keyword
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Tools = Mapping[str, Any] | Iterable[Any]

_NAME, _SIGNATURE, _DOC = 256, 4096, 8192  # bytes and characters of what is shown in the sandbox
_JSON_TYPES = {
    "string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict,
}  # fmt: skip


def check_callable(**functions: Any) -> None:
    """Raises TypeError for one that is given and is no function."""
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise TypeError(f"{name} must be a function, not {type(function).__name__}")


class Tool:
    """One function. A LangChain tool is known by what it has: nothing of LangChain is imported."""

    def __init__(self, name: str, function: Any) -> None:
        self.name = name
        self._langchain = _is_langchain(function)
        if not callable(function) and not self._langchain:
            raise TypeError(
                f"the tool '{name}' must be a function or a LangChain tool, not {type(function).__name__}"
            )
        if self._langchain and (injected := _injected(function)):
            raise TypeError(
                f"the tool '{name}' takes {', '.join(sorted(injected))} from the node of a graph that calls it, which "
                "code in the sandbox is not"
            )
        self._function = function
        self._signature = _schema_signature(function) if self._langchain else _signature(function)
        doc = function.description if self._langchain else inspect.getdoc(function)
        self.doc = str(doc or "")[:_DOC]
        self.signature = _readable(str(self._signature or "(*args, **kwargs)"))[:_SIGNATURE]

    @property
    def first_line(self) -> str:
        return self.doc.strip().partition("\n")[0]

    @property
    def runs_on_loop(self) -> bool:
        """Whether its call is awaited, rather than made in a thread."""
        if self._langchain:
            return getattr(self._function, "coroutine", None) is not None
        return is_async(self._function)

    def bound(self, args: Iterable[Any], kwargs: Mapping[str, Any]) -> Callable[[], Any]:
        """The call with these arguments; TypeError when they do not fit."""
        if self._langchain:
            method = self._function.ainvoke if self.runs_on_loop else self._function.invoke
            return functools.partial(method, self._named(args, kwargs))
        if self._signature is not None:
            self._bind(args, kwargs)
        return functools.partial(self._function, *args, **kwargs)

    def listed(self) -> dict[str, str]:
        return {"name": self.name, "signature": self.signature, "doc": _readable(self.doc)}

    def _bind(self, args: Iterable[Any], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        assert self._signature is not None
        try:
            return self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}{self.signature}: {error}") from None

    def _named(self, args: Iterable[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """A LangChain tool takes arguments by name."""
        if self._signature is not None:
            return dict(self._bind(args, kwargs).arguments)
        if list(args):
            raise TypeError(f"{self.name}() takes its arguments by name")
        return dict(kwargs)


def collect(tools: Tools) -> dict[str, Tool]:
    """By name. TypeError or ValueError for what cannot be offered to the sandbox."""
    if isinstance(tools, (str, bytes)) or not isinstance(tools, (Mapping, Iterable)):
        raise TypeError(f"tools must be a dict of name to function or a list of functions, not {tools!r}")
    pairs = tools.items() if isinstance(tools, Mapping) else ((_own_name(tool), tool) for tool in tools)
    collected: dict[str, Tool] = {}
    for name, function in pairs:
        _check_name(name)
        if name in collected:
            raise ValueError(f"two tools are named '{name}'; give them as a dict with names of your own")
        collected[name] = Tool(name, function)
    return collected


def is_async(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    called = getattr(function, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def _is_langchain(function: Any) -> bool:
    return not isinstance(function, type) and all(
        hasattr(function, name) for name in ("name", "description", "args_schema", "invoke")
    )


def _injected(tool: Any) -> set[str]:
    """The arguments of a LangChain tool that no model gives but the graph: its state, its store, its runtime."""
    try:
        return set(tool.get_input_schema().model_fields) - set(tool.tool_call_schema.model_fields)
    except AttributeError:
        return set()  # its schema is no model, and names what a model gives


def _own_name(tool: Any) -> Any:
    name = tool.name if _is_langchain(tool) else getattr(tool, "__name__", None)
    if not isinstance(name, str) or name == "<lambda>":
        raise ValueError(f"{tool!r} has no name to be called by; give it as {{'name': function}}")
    return name


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"the name of a tool must be text, not {name!r}")
    if not name.isidentifier() or keyword.iskeyword(name) or unicodedata.normalize("NFKC", name) != name:
        raise ValueError(
            f"'{name}' cannot be the name of a tool: it must be a Python identifier and no keyword; "
            f"give it as {{'name': function}}"
        )
    if name.startswith("_"):
        raise ValueError(f"'{name}' cannot be the name of a tool: it must not begin with an underscore")
    if len(name.encode()) > _NAME:
        raise ValueError(f"the name of a tool has at most {_NAME} bytes")


def _signature(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None  # some builtins do not tell


def _schema_signature(tool: Any) -> inspect.Signature | None:
    """Of the arguments that a model would give: what the framework injects is not among them."""
    schema = getattr(tool, "tool_call_schema", None) or tool.args_schema
    if schema is None:
        return None
    fields = getattr(schema, "model_fields", None)
    try:
        if fields is not None:
            return _ordered(_of_field(name, field) for name, field in fields.items())
        document = schema if isinstance(schema, Mapping) else schema.schema()
        required = document.get("required", ())
        named = document.get("properties", {}).items()
        return _ordered(_of_property(name, shape, name in required) for name, shape in named)
    except (AttributeError, TypeError, ValueError):
        return None  # a name that is no identifier


def _of_field(name: str, field: Any) -> inspect.Parameter:
    required = field.is_required()
    default = inspect.Parameter.empty if required else field.get_default(call_default_factory=False)
    return _parameter(name, field.annotation, default)


def _of_property(name: str, shape: Mapping[str, Any], required: bool) -> inspect.Parameter:
    kind = shape.get("type")
    annotation = _JSON_TYPES.get(kind, Any) if isinstance(kind, str) else Any
    return _parameter(name, annotation, inspect.Parameter.empty if required else shape.get("default"))


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, kind, annotation=annotation, default=default)


def _ordered(parameters: Iterable[inspect.Parameter]) -> inspect.Signature:
    """Those without a default first, as Python wants it."""
    return inspect.Signature(
        sorted(parameters, key=lambda parameter: parameter.default is not inspect.Parameter.empty)
    )


def _readable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
