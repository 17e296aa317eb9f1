"""What runs in the interpreter of a sandbox before its owner's first call, and what prepares one for a call.

Python starts where E2B's does, and shows figures and tables in E2B's forms besides its own: ``e2b/chart``
and ``e2b/data``.
"""

from __future__ import annotations

import ast
import importlib.resources

from ... import AsyncSession, Result

_SCRIPT = importlib.resources.files(__package__).joinpath("_prepare.py").read_text(encoding="utf-8")
_TIME = 60.0

SET = "__import__('sys').modules['limpet_e2b'].set_environment({!r})"
RESTORE = "__import__('sys').modules['limpet_e2b'].restore_environment()"


def cell(directory: str, home: str) -> str:
    """A cell that leaves no names behind, and whose value is where Python is then."""
    return (
        "(lambda module: (__import__('sys').modules.__setitem__('limpet_e2b', module), "
        f"exec({_SCRIPT!r}, module.__dict__), module.begin({directory!r}, {home!r}))[2])"
        "(type(__import__('sys'))('limpet_e2b'))"
    )


async def prepare(session: AsyncSession, directory: str, home: str) -> tuple[Result, str]:
    """Prepares a fresh interpreter, which counts as a call. Returns where it is then, too."""
    result = await session.run(cell(directory, home), _TIME)
    return result, str(ast.literal_eval(result.result)) if result.ok and result.result else directory


async def with_environment(session: AsyncSession, env: dict[str, str]) -> None:
    """For the call that follows, until without_environment(). Each of them counts as a call."""
    await session.run(SET.format(env) + ";", _TIME)


async def without_environment(session: AsyncSession) -> None:
    """Ends with_environment()."""
    await session.run(RESTORE + ";", _TIME)
