"""Packages for a session, where this version of Limpet can install them."""

from __future__ import annotations

from collections.abc import Sequence

from .. import BadRequest, Session


def install(session: Session, packages: Sequence[str]) -> None:
    """Installs packages. BadRequest where that cannot be, and says what to do instead."""
    if not packages:
        return
    method = getattr(session, "install", None)
    if method is None:
        raise BadRequest(
            "this version of Limpet cannot install into a session: build an image that has "
            f"{', '.join(packages)} (limpet image build --pip FILE --name NAME), and give image=NAME"
        )
    method(list(packages))
