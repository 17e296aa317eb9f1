"""Where LangGraph keeps the answers of a node, which is not a part of its interface and may change.

``interrupt()`` gives answers out by position. Where they cannot be found, none can be held to its question, and an
answer could allow something else than what was asked: then there are no approvals at all.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from langchain_core.runnables import RunnableConfig

SUPPORTED = "langgraph>=1.0.2,<2"
_PARTS = {"resume", "interrupt_counter", "get_null_resume"}

SCRATCHPAD = SEND = RESUME = ""
_lacks: str | None = None
try:
    from langgraph._internal._constants import CONFIG_KEY_SCRATCHPAD as SCRATCHPAD
    from langgraph._internal._constants import CONFIG_KEY_SEND as SEND  # noqa: F401
    from langgraph._internal._constants import RESUME  # noqa: F401
    from langgraph._internal._scratchpad import PregelScratchpad

    _lacks = ", ".join(sorted(_PARTS - PregelScratchpad.__annotations__.keys())) or None
except ImportError as error:
    _lacks = str(error)


def check() -> None:
    """RuntimeError where this LangGraph is not one that approvals are known to be safe with."""
    if _lacks is not None:
        raise _unsafe(_lacks)


def scratchpad(config: RunnableConfig) -> Any:
    """That of the node which makes the call, None outside of a graph; RuntimeError where it is not found."""
    check()
    pad = (config.get("configurable") or {}).get(SCRATCHPAD)
    if pad is None and not _in_graph(config):
        return None
    missing = sorted(part for part in _PARTS if not hasattr(pad, part))
    if missing:
        raise _unsafe(", ".join(missing))
    return pad


def _in_graph(config: RunnableConfig) -> bool:
    return "langgraph_node" in (config.get("metadata") or {}) or any(
        name.startswith("__pregel") for name in config.get("configurable") or {}
    )


def _unsafe(lacks: str) -> RuntimeError:
    try:
        installed = version("langgraph")
    except PackageNotFoundError:
        installed = "of an unknown version"
    return RuntimeError(
        f"approvals are not safe with this version of LangGraph ({installed}), which keeps the answers to interrupt() "
        f"in another way ({lacks}): install '{SUPPORTED}', a newer limpet, or make code_sandbox without tools"
    )
