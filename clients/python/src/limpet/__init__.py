"""Limpet: Python that stays alive between calls, in a container.

import limpet

with limpet.Client() as client, client.open("demo") as session:
    session.run("x = 41")
    print(session.run("x + 1").result)
"""

from ._asks import ToolCall
from ._async.client import AsyncClient
from ._async.session import AsyncSession
from ._sync.client import Client
from ._sync.session import Session
from ._version import VERSION as __version__
from .errors import (
    BadRequest,
    BranchExists,
    Busy,
    CheckpointFailed,
    Denied,
    EngineError,
    Error,
    ImageMissing,
    Internal,
    Leave,
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
from .state import Changed, Checkpoint, Committed, Namespace, Rollback, Variable

__all__ = [
    "__version__",
    "ArtifactInfo",
    "AsyncClient",
    "AsyncSession",
    "BadRequest",
    "BranchExists",
    "Busy",
    "Changed",
    "Checkpoint",
    "CheckpointFailed",
    "Client",
    "Committed",
    "Denied",
    "Display",
    "EngineError",
    "Error",
    "ErrorInfo",
    "ImageMissing",
    "Internal",
    "Leave",
    "LimpetWarning",
    "Namespace",
    "NoSuchCheckpoint",
    "NoSuchFile",
    "NoSuchRun",
    "NoSuchSession",
    "OptionsDiffer",
    "ProtocolMismatch",
    "Result",
    "Rollback",
    "RolledBackTo",
    "Session",
    "SessionClosed",
    "SessionInfo",
    "TooLarge",
    "ToolCall",
    "Unavailable",
    "Usage",
    "Variable",
]
