"""How a call ended, as one number, the way shells tell it."""

from __future__ import annotations

from .. import EngineError, Result, SessionClosed

TIMED_OUT, SIGNALLED = 124, 128
INTERRUPTED = SIGNALLED + 2
KILLED = SIGNALLED + 9


def check_ran(result: Result) -> None:
    """Raises SessionClosed where the session has ended meanwhile, EngineError where its sandbox failed otherwise."""
    if result.status == "failed" and result.error is not None:
        kind = SessionClosed if result.error.name == "SandboxLost" else EngineError
        raise kind(result.error.message)


def exit_code(result: Result) -> int | None:
    """Of a command; None where it has none, as when it was interrupted."""
    if result.exit_code is not None:
        return result.exit_code
    if result.status == "timeout":
        return TIMED_OUT
    if result.status == "oom":
        return KILLED
    return SIGNALLED + result.signal if result.signal else None


def exit_code_of_code(result: Result) -> int:
    """Of Python, as if it had been a program: ``sys.exit(3)`` is 3, an exception 1."""
    if result.ok:
        return 0
    if result.error is not None and result.error.name == "SystemExit":
        message = result.error.message.strip()
        return int(message) & 0xFF if message.lstrip("-").isdigit() else int(message not in ("", "None"))
    code = exit_code(result)
    return 1 if code is None else code
