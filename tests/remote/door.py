"""A controller that listens on a network, its keys, and peers of it that are not our clients."""

import contextlib
import os
import pathlib
import socket
import time

import limpet
import zmq

from tests.support.limpetd import Limpetd, controllers, name_of
from tests.support.ports import free_port

PATIENCE = 30


class Key:
    """A client's pair, and the file that has it."""

    def __init__(self, path):
        self.path = str(path)
        self.public, self.secret = (key.decode() for key in zmq.curve_keypair())
        pathlib.Path(path).write_text(f'curve\n    public-key = "{self.public}"\n    secret-key = "{self.secret}"\n')


class Door:
    """One that tests start; `key` is authorized for the user of the controller."""

    def __init__(self, engine="local"):
        self.limpetd = Limpetd(engine)
        self.directory = self.limpetd.directory
        self.port = free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.authorized = os.path.join(self.directory, "authorized_keys")
        self.key = self.new_key()
        self.authorize(f"{self.key.public} owner={os.geteuid()} name=first")

    def new_key(self):
        return Key(os.path.join(self.directory, f"key-{os.urandom(4).hex()}.key_secret"))

    def authorize(self, *lines):
        pathlib.Path(self.authorized).write_text("".join(f"{line}\n" for line in lines))
        os.chmod(self.authorized, 0o644)

    def start(self, *more):
        self.limpetd.start("--listen", self.address, "--authorized-keys", self.authorized, *more)
        wait_for(lambda: self.said("serving a network"))
        return self

    def said(self, text):
        return text in self.limpetd.said()

    @property
    def server_key(self):
        text = pathlib.Path(self.directory, "state", "limpet-net.key_secret").read_text()
        return next(line for line in text.splitlines() if "public-key" in line).split('"')[1]

    @property
    def options(self):
        return {"key": self.key.path, "server_key": self.server_key}

    def client(self, key=None, **options):
        return limpet.Client(self.address, **{**self.options, **({"key": key.path} if key else {}), **options})

    def async_client(self, **options):
        return limpet.AsyncClient(self.address, **{**self.options, **options})

    def process(self):
        """The pid of limpet-net."""
        for pid in [self.limpetd.process.pid, *controllers(self.limpetd.process.pid)]:
            for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                if name_of(child) == "limpet-net":
                    return int(child)
        raise AssertionError("there is no limpet-net")

    @contextlib.contextmanager
    def peer(self, key=None, kind=zmq.DEALER, server_key=None, ahead=1000):
        """libzmq itself, which receives so many messages ahead of who reads them."""
        key = key or self.key
        context = zmq.Context()
        peer = context.socket(kind)
        peer.linger = 0
        peer.rcvhwm = ahead
        peer.curve_publickey, peer.curve_secretkey = key.public.encode(), key.secret.encode()
        peer.curve_serverkey = (server_key or self.server_key).encode()
        peer.connect(self.address)
        try:
            yield peer
        finally:
            context.destroy(linger=0)

    def raw(self, address="127.0.0.1"):
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE, source_address=(address, 0))


@contextlib.contextmanager
def opened(*more, engine="local"):
    door = Door(engine)
    try:
        door.start(*more)
        yield door
        assert door.limpetd.stop() == 0, door.limpetd.said()
        assert door.limpetd.leftovers() == {}
    finally:
        door.limpetd.stop()
        door.limpetd.remove()


def wait_for(condition):
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < end, "it has not come"
        time.sleep(0.02)
    return value


def resident(pid):
    """Bytes."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise AssertionError("no VmRSS")
