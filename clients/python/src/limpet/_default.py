"""A client that is made when it is first needed, for scripts that want one controller and no object for it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from ._sync.client import Client

P = ParamSpec("P")
T = TypeVar("T")


@functools.cache
def _client() -> Client:
    return Client()


def _of_default(method: Callable[Concatenate[Client, P], T]) -> Callable[P, T]:
    @functools.wraps(method)
    def call(*args: P.args, **options: P.kwargs) -> T:
        return method(_client(), *args, **options)

    signature = inspect.signature(method)
    call.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])  # type: ignore[attr-defined]
    return call


run = _of_default(Client.run)
open = _of_default(Client.open)
