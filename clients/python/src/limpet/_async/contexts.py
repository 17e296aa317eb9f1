"""Branches and contexts of a session: variables of their own in its container, in Python or another language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .._calls._asks import Asks
from .._protocol import _requests
from ..results import SessionInfo
from ..state import Checkpoint
from .commands import AsyncCommands
from .connecting import opening

if TYPE_CHECKING:
    from typing_extensions import Self

    from .client import AsyncClient


class AsyncContexts(AsyncCommands):
    """How a session makes others in its container."""

    def __init__(self, client: AsyncClient, opened: Mapping[str, Any], asks: Asks) -> None:
        super().__init__(opened, asks)
        self._client = client
        self._languages: dict[str, Self] = {}  # contexts by what their language was called

    @opening
    async def branch(self, name: str, at: Checkpoint | str | None = None) -> Self:
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
        return self._place(await self._request(_requests.branch(name, at)))

    @opening
    async def context(
        self, name: str | None = None, language: str | None = None, cwd: str | None = None
    ) -> Self:
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
        return self._place(await self._request(_requests.context(name, language, cwd)))

    def _place(self, opened: Mapping[str, Any]) -> Self:
        place = type(self)(self._client, opened, self._asks)
        place._checks = self._checks
        return place

    async def contexts(self) -> list[SessionInfo]:
        """Lists the contexts of this session, and its branches."""
        prefix = f"{self.name}/"
        return [one for one in await self._client.sessions() if one.session.startswith(prefix)]

    async def _in(self, language: str) -> Self:
        place = self._languages.get(language)
        if place is None or place._closed:
            self._languages[language] = place = await self.context(language=language)
        return place
