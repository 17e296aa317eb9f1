# Generated from limpet/_async/templates.py by scripts/generate-blocking: change that file.
"""Templates: what a client does with them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from .._copying._files import Path
from .._protocol import _template_requests as _ask
from .._protocol._opened import Opened
from ..errors import BadRequest
from ..templates import Template
from .connecting import Connecting

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._protocol._options import SessionOptions
    from .._protocol._requests import Request
    from ..packages import Requirements
    from .session import Session

    T = TypeVar("T")


class Templates(Connecting):
    """How a client makes, lists and removes templates."""

    if TYPE_CHECKING:

        def open(self, name: str | None = None, **options: Unpack[SessionOptions]) -> Session: ...

        def _request(self, request: Request[T]) -> T: ...

    def template(
        self,
        name: str,
        image: str | None = None,
        packages: Requirements | None = None,
        files: Path | None = None,
        env: Mapping[str, str] | None = None,
        setup: str | None = None,
        replace: bool = False,
        *,
        session: Opened | str | None = None,
    ) -> Template:
        """Makes a template, from which ``open(template=name)`` opens sessions.

        The template is tried once: the call returns when a sandbox of it is ready. If that fails, nothing is kept.

        Args:
            name: Name of the template, with the same rules as the name of a session.
            image: Image of its sessions. Defaults to the image ``default``.
            packages: Python packages that its sessions have: a list, or the path of a requirements file.
            files: Local directory whose contents are put into ``/session``. Links that lead out of it are refused.
            env: Environment variables of the setup code and of the sessions.
            setup: Python code that has run in each session, in ``/session``, before its first call.
            replace: Whether a template of this name is replaced. Sessions of the old one stay as they are.
            session: Session, or its name, whose ``/session`` and packages the template gets instead of ``files`` and
                ``packages``, and whose image and environment it gets if none are given. Not its variables.

        Raises:
            TemplateExists: A template has this name, and ``replace`` is False.
            TemplateFailed: The setup code failed; ``traceback`` has its traceback.
            ImageMissing: The image does not exist.
            InstallFailed: The packages could not be installed.
        """
        if files is None and packages is None:
            return self._request(_ask.template(name, _target(session), image, env, setup, replace))
        if session is not None:
            raise BadRequest(
                "a template has its files and packages from a session or from what is named, not from both"
            )
        if files is not None and not os.path.isdir(files):
            raise NotADirectoryError(f"files is not a directory: {os.fspath(files)!r}")
        holder = self.open(image=image, ttl=_ask.PUTTING_TTL, checkpoint="off", packages=packages)
        try:
            if files is not None:
                holder.put(files, "/session")
            return self._request(_ask.template(name, holder._target, image, env, setup, replace))
        finally:
            holder.close()

    def templates(self) -> list[Template]:
        """Lists this user's templates, and those of the controller's user, which everybody may use."""
        return self._request(_ask.templates())

    def remove_template(self, name: str) -> None:
        """Removes a template. Sessions that began from it stay as they are.

        Args:
            name: Name of the template.

        Raises:
            NoSuchTemplate: No template has this name.
        """
        self._request(_ask.remove_template(name))


def _target(session: Opened | str | None) -> Mapping[str, str]:
    if isinstance(session, Opened):
        return session._target
    return {} if session is None else {"session": session}
