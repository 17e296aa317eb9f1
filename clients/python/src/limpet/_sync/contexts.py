# Generated from limpet/_async/contexts.py by scripts/generate-blocking: change that file.
"""Branches and contexts of a session: variables of their own in its container, in Python or another language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from .._calls._asks import Asks
from .._protocol import _requests
from ..results import SessionInfo
from ..state import Checkpoint
from .commands import Commands
from .connecting import opening

if TYPE_CHECKING:
    from typing_extensions import Self

    from .client import Client


class Contexts(Commands):
    """How a session makes others in its container."""

    def __init__(self, client: Client, opened: Mapping[str, Any], asks: Asks) -> None:
        super().__init__(opened, asks)
        self._client = client
        self._languages: dict[str, Self] = {}  # contexts by what their language was called

    @opening
    def branch(self, name: str, at: Checkpoint | str | None = None) -> Self:
        """Opens the branch ``SESSION/NAME`` with the current variables, or those of a checkpoint.

        The branch has its own variables and shares the container, the files and the artifacts of this session. Calls
        of one container run one at a time.

        Args:
            name: Name of the branch, with the same rules as the name of a session.
            at: A checkpoint, its id or its name. Defaults to the current state.

        Returns:
            The branch, a session.

        Raises:
            BranchExists: An open branch has this name.
        """
        return self._place(self._request(_requests.branch(name, at)))

    @overload
    def fork(self, name: str | None = None) -> Self: ...

    @overload
    def fork(self, name: int | list[str]) -> list[Self]: ...

    def fork(self, name: str | int | list[str] | None = None) -> Self | list[Self]:
        """Makes sessions in containers of their own, which begin as this one is now.

        Each has its own copy of the live variables, of ``/session``, ``/tmp`` and the home directory, and the options
        of this session. From then on they have nothing in common. What cannot be copied, such as connections, is in
        ``restored`` of the first result. Branches, contexts, processes and checkpoints are not copied.

        Args:
            name: Name of the new session. Defaults to a random name. A number makes as many sessions with random
                names, a list of names one of each, from the same state: all are made, or none. A session with a random
                name is closed when it has been idle for its ``ttl``; one with a name does what this session does.

        Returns:
            The new session, or a list of them for a number or a list.

        Raises:
            SessionExists: There is a session of this name.
            LimitReached: The sessions would be more, or have more memory or disk, than allowed.
            Busy: The controller has as many sessions as it may have.
        """
        made = self._forks(*_requests.fork_names(name))
        return made[0] if name is None or isinstance(name, str) else made

    def _forks(
        self, names: Sequence[str], ttl_action: str | None = None, data: Sequence[str] | None = None
    ) -> list[Self]:
        request = _requests.fork(names, ttl_action, data)
        return [self._place(opened) for opened in self._request(request)]

    def sleep(self) -> None:
        """Saves the session with everything in it and removes its container, when the calls before it have ended.

        The session needs no memory until it is used again. The next call wakes it; see *Idle sessions*.

        Raises:
            Busy: The session is in use, or has branches or contexts.
            SaveFailed: The session could not be saved; the message gives the reason.
        """
        self._request(_requests.sleep())

    @opening
    def context(self, name: str | None = None, language: str | None = None, cwd: str | None = None) -> Self:
        """Opens the context ``SESSION/NAME``: variables of its own, in Python or another language.

        A context starts empty and shares the container, the files and the artifacts of this session. Calls of one
        container run one at a time. If the context exists, this attaches to it. Variables of other languages than
        Python stay between calls as well, but have no checkpoints: a call that ends the program leaves ``state`` as
        ``lost``. In a compiled language, each call is a program of its own.

        Args:
            name: Name of the context, with the same rules as the name of a session. Defaults to the language.
            language: ``python``, ``bash``, or a language of the image, such as ``javascript``; aliases such as ``js``
                are allowed. Defaults to ``python``.
            cwd: Directory in the container where it starts. Defaults to ``/session``.

        Returns:
            The context, a session.

        Raises:
            BadRequest: The image does not have the language, or the directory does not exist.
            OptionsDiffer: The context exists, with another language or directory.
        """
        return self._place(self._request(_requests.context(name, language, cwd)))

    def _place(self, opened: Mapping[str, Any]) -> Self:
        place = type(self)(self._client, opened, self._asks)
        place._checks = self._checks
        return place

    def contexts(self) -> list[SessionInfo]:
        """Lists the contexts of this session, and its branches."""
        prefix = f"{self.name}/"
        return [one for one in self._client._rows(self.name) if one.session.startswith(prefix)]

    def _in(self, language: str) -> Self:
        place = self._languages.get(language)
        if place is None or place._closed:
            self._languages[language] = place = self.context(language=language)
        return place
