"""What runs in the interpreter of a sandbox before its owner's first call, and what prepares one for a call.

Python starts where E2B's does, and shows figures and tables in E2B's forms besides its own: ``e2b/chart``
and ``e2b/data``.
"""

from __future__ import annotations

import ast
import importlib.resources
import json
import re
import shlex
from collections.abc import Callable

from ... import AsyncSession, Result
from ._http import Refused

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}\Z")

_SCRIPT = importlib.resources.files(__package__).joinpath("_prepare.py").read_text(encoding="utf-8")
TIME = 60.0
"""Seconds that a call of ours may take."""


def cell(directory: str, home: str) -> str:
    """A cell that leaves no names behind, and whose value is where Python is then."""
    return (
        "(lambda module: (__import__('sys').modules.__setitem__('limpet_e2b', module), "
        f"exec({_SCRIPT!r}, module.__dict__), module.begin({directory!r}, {home!r}))[2])"
        "(type(__import__('sys'))('limpet_e2b'))"
    )


async def prepare(session: AsyncSession, directory: str, home: str) -> tuple[Result, str]:
    """Prepares a fresh interpreter, which counts as a call. Returns where it is then, too."""
    result = await session.run(cell(directory, home), TIME)
    return result, str(ast.literal_eval(result.result)) if result.ok and result.result else directory


def check_environment(language: str, env: dict[str, str]) -> None:
    """Whether the call of a context can have an environment. Raises Refused."""
    if language not in _WITH:
        raise Refused(400, f"env_vars are for {', '.join(_WITH)}; in {language} set them in the code")
    for name, value in env.items():
        if not _NAME.match(name) or "\0" in value:
            raise Refused(400, f"env_vars: {name!r} is no name of a variable, or its value has a null byte")


def with_environment(language: str, env: dict[str, str]) -> str:
    """Code that sets variables of the environment for the call that follows."""
    return _WITH[language](env)


def without_environment(language: str, env: dict[str, str]) -> str:
    """Code that sets them as they were before with_environment()."""
    return _WITHOUT[language](env)


def _set_in_bash(env: dict[str, str]) -> str:
    kept = "".join(f"__limpet_{name}=${{{name}-}} __limpet_had_{name}=${{{name}+x}}\n" for name in env)
    return kept + "".join(f"export {name}={shlex.quote(value)}\n" for name, value in env.items())


def _restored_in_bash(env: dict[str, str]) -> str:
    return "".join(
        f'if [ -n "$__limpet_had_{name}" ]; then export {name}="$__limpet_{name}"; else unset {name}; fi\n'
        f"unset __limpet_{name} __limpet_had_{name}\n"
        for name in env
    )


def _set_in_javascript(env: dict[str, str]) -> str:
    values = json.dumps(env)
    return (
        f"globalThis.__limpetBefore = Object.keys({values}).map((name) => [name, process.env[name]]); "
        f"Object.assign(process.env, {values}); undefined"
    )


_RESTORED_IN_JAVASCRIPT = (
    "for (const [name, value] of globalThis.__limpetBefore) "
    "if (value === undefined) delete process.env[name]; else process.env[name] = value; undefined"
)


def _set_in_java(env: dict[str, str]) -> str:
    return "".join(
        f"String __limpet_{name} = System.setProperty({json.dumps(name)}, {json.dumps(value)});\n"
        for name, value in env.items()
    )


def _restored_in_java(env: dict[str, str]) -> str:
    return "".join(
        f"if (__limpet_{name} == null) System.clearProperty({json.dumps(name)}); "
        f"else System.setProperty({json.dumps(name)}, __limpet_{name});\n"
        for name in env
    )


def _set_in_r(env: dict[str, str]) -> str:
    names = ", ".join(map(json.dumps, env))
    values = ", ".join(f"`{name}` = {json.dumps(value, ensure_ascii=False)}" for name, value in env.items())
    return (
        f"options(limpet.before = Sys.getenv(c({names}), unset = NA, names = TRUE)); "
        f"invisible(Sys.setenv({values}))"
    )


_RESTORED_IN_R = (
    "local({ before <- getOption('limpet.before'); for (name in names(before)) "
    "if (is.na(before[[name]])) Sys.unsetenv(name) else do.call(Sys.setenv, as.list(before[name])) })"
)
_MODULE = "__import__('sys').modules['limpet_e2b']"
_WITH: dict[str, Callable[[dict[str, str]], str]] = {
    "python": lambda env: f"{_MODULE}.set_environment({env!r});",
    "bash": _set_in_bash,
    "javascript": _set_in_javascript,
    "typescript": _set_in_javascript,
    "java": _set_in_java,
    "r": _set_in_r,
}
_WITHOUT: dict[str, Callable[[dict[str, str]], str]] = {
    "python": lambda env: f"{_MODULE}.restore_environment();",
    "bash": _restored_in_bash,
    "javascript": lambda env: _RESTORED_IN_JAVASCRIPT,
    "typescript": lambda env: _RESTORED_IN_JAVASCRIPT,
    "java": _restored_in_java,
    "r": lambda env: _RESTORED_IN_R,
}
