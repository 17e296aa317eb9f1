"""The golden vectors, against the independent encoder of rawpack."""

import re

from tests.support import ROOT
from tests.support.vectors import VECTORS

from . import rawpack


def test_same_bytes():
    for name, vector in VECTORS.items():
        body = rawpack.from_json(vector["body"])
        encoded = rawpack.message(vector["kind"], vector["id"], body)
        assert encoded.hex() == vector["hex"], name
        version, kind, id, decoded = rawpack.unpack(encoded)
        assert (version, kind, id, decoded) == (1, vector["kind"], vector["id"], body), name
        assert list(decoded) == list(body), name


def test_every_message_has_a_vector():
    table = re.findall(r"^MESSAGE\((\d+), ", (ROOT / "proto/messages.def").read_text(), re.M)
    assert {int(number) for number in table} == {vector["kind"] for vector in VECTORS.values()}
