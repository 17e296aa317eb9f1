"""Keys of clients that reach a controller over a network: pairs in files, as ZeroMQ's tools write them."""

from __future__ import annotations

import os
import re
from typing import NamedTuple, Union

from ..errors import BadRequest

KeyFile = Union[str, "os.PathLike[str]", None]

SCHEME = "tcp://"

_KEY = r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}"
_INSTEAD = "make a pair of keys with `limpet keygen`, and have the public one authorized by whoever runs the controller"


class Keys(NamedTuple):
    """What a connection is encrypted and both sides are known by."""

    public: bytes
    secret: bytes
    server: bytes  # the public one of the controller


def is_remote(address: str) -> bool:
    return address.startswith(SCHEME)


def keys_for(address: str, key: KeyFile, server_key: str | None) -> Keys:
    """The client's pair and whom it expects at the address, as given or as LIMPET_KEY and LIMPET_SERVER_KEY say."""
    key = key or os.environ.get("LIMPET_KEY") or _standard_path()
    server = server_key or os.environ.get("LIMPET_SERVER_KEY")
    if not server:
        raise BadRequest(
            f"{address} needs the public key of its controller: give server_key= or LIMPET_SERVER_KEY what "
            "`limpetd --check` prints there"
        )
    if not re.fullmatch(_KEY, server):
        raise BadRequest(f"server_key cannot be {server!r}: a public key has 40 characters")
    return Keys(*read(key), server.encode())


def _standard_path() -> str:
    """Where ``limpet keygen`` puts a pair."""
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(config, "limpet", "limpet.key_secret")


def read(path: KeyFile) -> tuple[bytes, bytes]:
    """The public and the secret key of a file."""
    name = os.path.expanduser(os.fspath(path or ""))
    try:
        with open(name, encoding="ascii") as file:
            text = file.read(4096)
    except (OSError, ValueError) as error:
        raise BadRequest(f"the key {name} cannot be read: {error}; {_INSTEAD}") from error
    found = [re.search(rf'{which}\s*=\s*"({_KEY})"', text) for which in ("public-key", "secret-key")]
    if found[0] is None or found[1] is None:
        raise BadRequest(f"{name} has no pair of keys; {_INSTEAD}")
    return found[0][1].encode(), found[1][1].encode()
