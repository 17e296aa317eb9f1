"""Keys: who may use the gateway. A file has their hashes, never a key itself."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}\Z")


class KeyFailed(Exception):
    """Something about keys cannot be done; the message says why."""


@dataclass(frozen=True)
class Owner:
    """Who has keys, and the sessions that were made with them."""

    id: str
    """What its sessions are told apart by; empty for the only one there is without keys."""
    name: str

    @property
    def is_anonymous(self) -> bool:
        """Whether nobody had to show a key."""
        return not self.id


ANONYMOUS = Owner("", "anonymous")


@dataclass(frozen=True)
class Key:
    """An entry of the file."""

    name: str
    owner: str
    sha256: str
    created: float
    expires: float | None = None

    @property
    def id(self) -> str:
        """What it is told from others of the same name by."""
        return self.sha256[:8]

    @property
    def has_expired(self) -> bool:
        return self.expires is not None and self.expires <= time.time()


class KeyStore:
    """The keys of a file. Its changes, by ``limpet key`` or others, are seen at once by a gateway that runs."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._directory = os.path.dirname(path)
        self._stamp: tuple[int, ...] | None = None
        self._keys: dict[str, Key] = {}  # by their hashes

    def owner(self, key: str) -> Owner | None:
        """Whose key this is; None if it is nobody's, or good no longer."""
        self._look()
        known = self._keys.get(_hash(key))
        return None if known is None or known.has_expired else Owner(known.owner, known.name)

    def is_there(self, owner: str) -> bool:
        """Whether somebody of this id has a key that is good."""
        self._look()
        return any(each.owner == owner and not each.has_expired for each in self._keys.values())

    def is_known(self, owner: str) -> bool:
        """Whether somebody of this id has a key, be it one that has expired: another one may follow."""
        self._look()
        return any(each.owner == owner for each in self._keys.values())

    @property
    def are_there(self) -> bool:
        """Whether anybody has a key, be it one that has expired."""
        self._look()
        return bool(self._keys)

    def all(self) -> list[Key]:
        """All, in the order in which they were created."""
        try:
            with open(self._path, encoding="utf-8") as file:
                return [Key(**entry) for entry in json.load(file)]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError) as error:
            raise KeyFailed(f"{self._path} cannot be read: {error}") from None

    def create(self, name: str, lasts: float | None = None) -> str:
        """A new key, which is told this once. All keys of a name have the same owner.

        Args:
            name: Whose it is.
            lasts: Seconds for which it is good; None is for ever.
        """
        if not _NAME.match(name):
            raise KeyFailed(f"'{name}' is no name for a key: 1 to 64 characters of A-Z a-z 0-9 . _ @ -")
        with self._changing():
            return self._add(self.all(), name, lasts)

    def rotate(self, name: str, lasts: float | None = None) -> str:
        """A new key in place of all that the owner has. Sessions and what else the owner has stay."""
        with self._changing():
            keys = self.all()
            self._check(keys, name)
            return self._add(keys, name, lasts, instead=True)

    def revoke(self, name: str, id: str | None = None) -> None:
        """Ends the keys of a name, or one of them. With its last key the sessions of an owner end when they have been
        idle for their ttl.
        """
        with self._changing():
            keys = self.all()
            self._check(keys, name)
            left = [each for each in keys if each.name != name or id not in (None, each.id)]
            if len(left) == len(keys):
                raise KeyFailed(f"'{name}' has no key {id}; `limpet key ls` lists them")
            self._write(left)

    def _add(self, keys: list[Key], name: str, lasts: float | None, instead: bool = False) -> str:
        key, now = f"e2b_{secrets.token_hex(20)}", time.time()
        owner = next((each.owner for each in keys if each.name == name), _owner_id(name))
        if any(each.owner == owner and each.name != name for each in keys):
            raise KeyFailed(f"'{name}' cannot be told from another name by its hash: choose another one")
        left = [each for each in keys if not (instead and each.name == name)]
        self._write([*left, Key(name, owner, _hash(key), now, None if lasts is None else now + lasts)])
        return key

    def _check(self, keys: list[Key], name: str) -> None:
        if not any(each.name == name for each in keys):
            raise KeyFailed(f"there is no key '{name}'; `limpet key ls` lists them")

    def _look(self) -> None:
        try:
            found = os.stat(self._path)
            stamp: tuple[int, ...] | None = (found.st_ino, found.st_mtime_ns, found.st_size)
        except OSError:
            stamp = None
        if stamp != self._stamp:
            self._keys = {each.sha256: each for each in self.all()}
            self._stamp = stamp

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        try:
            os.makedirs(self._directory, 0o700, exist_ok=True)
            lock = os.open(self._path + ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise KeyFailed(f"{self._directory} cannot be written to: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _write(self, keys: list[Key]) -> None:
        """As a whole or not at all, and readable by whose directory it is: root makes keys for the gateway's user."""
        new = self._path + ".new"
        with open(new, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            json.dump([asdict(key) for key in keys], file, indent=1)
            file.flush()
            os.fsync(file.fileno())
            if os.geteuid() == 0:
                whose = os.stat(self._directory)
                os.fchown(file.fileno(), whose.st_uid, whose.st_gid)
        os.replace(new, self._path)


def _owner_id(name: str) -> str:
    """Whoever gets a key again has what there was."""
    return hashlib.sha256(f"owner:{name}".encode()).hexdigest()[:8]


def _hash(key: str) -> str:
    """Keys are 160 random bits: a slow hash would protect nothing more."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
