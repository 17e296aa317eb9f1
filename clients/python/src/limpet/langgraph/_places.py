"""Where a call runs: the session of its thread, or that of its run of the graph."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import get_runtime

NOTHING_STAYS = (
    "NOTHING STAYS: this call ran in a clean container; its variables, imports and files are gone. Put everything "
    "that belongs together into one call."
)
"""Said of each call that would have a session if its config named one."""
RUN_TTL = 600.0
"""Seconds after which the session of a run ends that nobody can come back to."""
_SESSION_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def thread_of(config: RunnableConfig) -> str | None:
    thread = (config.get("configurable") or {}).get("thread_id")
    return None if thread is None or str(thread) == "" else str(thread)


def run_of(config: RunnableConfig) -> str | None:
    """The ``run_id`` that the graph was invoked with, in the config itself or in its metadata."""
    run = (config.get("metadata") or {}).get("run_id") or getattr(_execution(), "run_id", None)
    return str(run) if run else None


def session_of(config: RunnableConfig, prefix: str) -> str | None:
    """The name of the session; None where nothing tells the calls of one run from those of another."""
    thread = thread_of(config)
    if thread is not None:
        return _named(f"{prefix}{thread}")
    run = run_of(config)
    return None if run is None else _named(f"{prefix}run-{run}")


def _execution() -> Any:
    """What LangGraph says of the run, None outside of a graph and with versions that do not say it."""
    try:
        return getattr(get_runtime(), "execution_info", None)
    except (KeyError, RuntimeError):
        return None


def _named(text: str) -> str:
    """The text, or a name made from it when it cannot be one."""
    if _SESSION_NAME.fullmatch(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:40]
    return f"{plain or 'thread'}-{digest}"
