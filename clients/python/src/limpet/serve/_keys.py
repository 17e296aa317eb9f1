"""Keys: who may use the gateway. A file of the state directory has their hashes, never a key itself."""

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
_CHECK_EVERY = 0.5  # seconds between looks at the file


class KeyFailed(Exception):
    """Something about keys cannot be done; the message says why."""


@dataclass(frozen=True)
class Owner:
    """Who has a key, and the sessions that were made with it."""

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


class KeyStore:
    """The keys of a state directory. Changes of the file by ``limpet key`` are seen while the gateway runs."""

    def __init__(self, state_dir: str) -> None:
        self._directory = state_dir
        self._path = os.path.join(state_dir, "keys")
        self._checked = 0.0
        self._stamp: tuple[int, ...] | None = None
        self._owners: dict[str, Owner] = {}

    def owner(self, key: str) -> Owner | None:
        """Whose key this is; None if it is nobody's."""
        self._look()
        hashed = _hash(key)
        if hashed not in self._owners:
            self._look(at_once=True)  # it may have been created a moment ago
        return self._owners.get(hashed)

    def is_there(self, owner: str) -> bool:
        """Whether somebody of this id has a key."""
        self._look()
        return any(each.id == owner for each in self._owners.values())

    @property
    def are_there(self) -> bool:
        """Whether anybody has a key."""
        self._look()
        return bool(self._owners)

    def all(self) -> list[Key]:
        """All, in the order in which they were created."""
        try:
            with open(self._path, encoding="utf-8") as file:
                return [Key(**entry) for entry in json.load(file)]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError) as error:
            raise KeyFailed(f"{self._path} cannot be read: {error}") from None

    def create(self, name: str) -> str:
        """A new key, which is told this once."""
        if not _NAME.match(name):
            raise KeyFailed(f"'{name}' is no name for a key: 1 to 64 characters of A-Z a-z 0-9 . _ @ -")
        key = f"e2b_{secrets.token_hex(20)}"
        with self._changing():
            keys = self.all()
            if any(each.name == name for each in keys):
                raise KeyFailed(f"there is a key '{name}' already; `limpet key revoke {name}` ends it")
            self._write([*keys, Key(name, secrets.token_hex(4), _hash(key), time.time())])
        return key

    def revoke(self, name: str) -> None:
        """Ends a key. The sessions of its owner end when they have been idle for their ttl."""
        with self._changing():
            keys = self.all()
            left = [each for each in keys if each.name != name]
            if len(left) == len(keys):
                raise KeyFailed(f"there is no key '{name}'; `limpet key ls` lists them")
            self._write(left)

    def _look(self, at_once: bool = False) -> None:
        now = time.monotonic()
        if now - self._checked < _CHECK_EVERY and self._checked and not at_once:
            return
        self._checked = now
        try:
            found = os.stat(self._path)
            stamp: tuple[int, ...] | None = (found.st_ino, found.st_mtime_ns, found.st_size)
        except OSError:
            stamp = None
        if stamp != self._stamp:
            self._owners = {each.sha256: Owner(each.owner, each.name) for each in self.all()}
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


def _hash(key: str) -> str:
    """Keys are 160 random bits: a slow hash would protect nothing more."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
