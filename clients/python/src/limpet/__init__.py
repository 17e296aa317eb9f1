"""Limpet: Python that stays alive between calls, in a container.

import limpet

with limpet.Client() as client, client.open("demo") as session:
    session.run("x = 41")
    print(session.run("x + 1").result)
"""

from ._aio import AsyncClient, AsyncSession
from ._client import Client, Session
from ._requests import VERSION as __version__
from .errors import (
    BadRequest,
    Busy,
    Denied,
    EngineError,
    Error,
    ImageMissing,
    Internal,
    LimpetWarning,
    NoSuchCheckpoint,
    NoSuchFile,
    NoSuchRun,
    NoSuchSession,
    OptionsDiffer,
    ProtocolMismatch,
    SessionClosed,
    TooLarge,
    Unavailable,
)
from .results import ArtifactInfo, Display, ErrorInfo, Result, RolledBackTo, SessionInfo, Usage

__all__ = [
    "__version__",
    "ArtifactInfo",
    "AsyncClient",
    "AsyncSession",
    "BadRequest",
    "Busy",
    "Client",
    "Denied",
    "Display",
    "EngineError",
    "Error",
    "ErrorInfo",
    "ImageMissing",
    "Internal",
    "LimpetWarning",
    "NoSuchCheckpoint",
    "NoSuchFile",
    "NoSuchRun",
    "NoSuchSession",
    "OptionsDiffer",
    "ProtocolMismatch",
    "Result",
    "RolledBackTo",
    "Session",
    "SessionClosed",
    "SessionInfo",
    "TooLarge",
    "Unavailable",
    "Usage",
]
