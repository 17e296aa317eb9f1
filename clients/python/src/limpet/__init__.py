"""Limpet: Python in a container that stays alive between calls.

import limpet

with limpet.open("demo") as session:
    session.run("x = 41")
    print(session.run("x + 1").result)
"""

from ._async.client import AsyncClient
from ._async.files import AsyncFiles, AsyncWatch
from ._async.processes import AsyncProcess
from ._async.session import AsyncSession
from ._calls._asks import Approve, Asks, OnInput, ToolCall, ToolTime
from ._calls._tools import Tools
from ._default import open as open
from ._default import run as run
from ._protocol._options import (
    Binding,
    CheckpointPolicy,
    ContainerOptions,
    Network,
    NetworkRules,
    SessionOptions,
    TtlAction,
)
from ._protocol._requests import OnError
from ._sync.client import Client
from ._sync.files import Files, Watch
from ._sync.processes import Process
from ._sync.session import Session
from ._version import VERSION as __version__
from .errors import (
    BadRequest,
    BranchExists,
    Busy,
    CallFailed,
    CallTimeout,
    CheckpointFailed,
    Denied,
    EngineError,
    Error,
    FileFailed,
    ImageMissing,
    InstallFailed,
    Internal,
    Leave,
    LimitReached,
    LimpetWarning,
    NoSuchCheckpoint,
    NoSuchFile,
    NoSuchRun,
    NoSuchSession,
    NoSuchTemplate,
    NotListening,
    OptionsDiffer,
    ProtocolMismatch,
    RestoreFailed,
    SaveFailed,
    SessionClosed,
    SessionExists,
    TemplateExists,
    TemplateFailed,
    TooLarge,
    Unavailable,
)
from .files import Entry, Event
from .packages import Installed
from .processes import Output
from .results import (
    ArtifactInfo,
    Between,
    ControllerInfo,
    Display,
    ErrorInfo,
    Holder,
    Image,
    Protection,
    Result,
    RolledBackTo,
    SessionInfo,
    SessionStatus,
    State,
    Status,
    Usage,
)
from .saved import Saved
from .state import Changed, Checkpoint, Committed, Namespace, Rollback, Variable
from .templates import Template

AsyncClient._counterpart, Client._counterpart = Client, AsyncClient

__all__ = [
    "__version__",
    "Approve",
    "ArtifactInfo",
    "Asks",
    "AsyncClient",
    "AsyncFiles",
    "AsyncProcess",
    "AsyncSession",
    "AsyncWatch",
    "BadRequest",
    "Between",
    "Binding",
    "BranchExists",
    "Busy",
    "Changed",
    "Checkpoint",
    "CallFailed",
    "CallTimeout",
    "CheckpointFailed",
    "CheckpointPolicy",
    "Client",
    "Committed",
    "ControllerInfo",
    "ContainerOptions",
    "Denied",
    "Display",
    "EngineError",
    "Entry",
    "Error",
    "ErrorInfo",
    "Event",
    "FileFailed",
    "Files",
    "Holder",
    "Image",
    "ImageMissing",
    "Installed",
    "InstallFailed",
    "Internal",
    "Leave",
    "LimitReached",
    "LimpetWarning",
    "Namespace",
    "Network",
    "NetworkRules",
    "NoSuchCheckpoint",
    "NoSuchFile",
    "NoSuchRun",
    "NoSuchSession",
    "NoSuchTemplate",
    "NotListening",
    "OnError",
    "OnInput",
    "OptionsDiffer",
    "Output",
    "Process",
    "Protection",
    "ProtocolMismatch",
    "RestoreFailed",
    "Result",
    "Rollback",
    "RolledBackTo",
    "Saved",
    "SaveFailed",
    "Session",
    "SessionClosed",
    "SessionExists",
    "SessionInfo",
    "SessionOptions",
    "SessionStatus",
    "State",
    "Status",
    "Template",
    "TemplateExists",
    "TemplateFailed",
    "TooLarge",
    "ToolCall",
    "Tools",
    "ToolTime",
    "TtlAction",
    "Unavailable",
    "Usage",
    "Variable",
    "Watch",
]
