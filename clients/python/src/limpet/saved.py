"""What ``save()`` has saved of a session."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

SAVED: Literal["saved"] = "saved"


@dataclass(frozen=True)
class Saved:
    """A saved session: a tar file, which ``client.open(restore=)`` makes a session of."""

    path: str
    size: int
    """Bytes of the file."""
    variables: dict[str, str] = field(hash=False)
    """Maps each name to ``"saved"``, or to the reason why its value is not in the file."""
    skipped: list[str] = field(hash=False)
    """What else is not in the file: pipes, sockets and devices of ``/session``, files outside it, such as in ``/tmp``,
    and files that could not be read."""
    memory: int = 0
    """Bytes of the interpreter's live memory, which is in the file beside the variables; 0: it could not be written."""

    @property
    def lost(self) -> dict[str, str]:
        """The variables that are not in the file, with the reasons."""
        return {name: why for name, why in self.variables.items() if why != SAVED}
