"""The golden vectors, against the independent encoder of rawpack."""

import json
import pathlib
import re

from . import rawpack

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto"
VECTORS = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(PROTO.glob("vectors/*.json"))}


def test_same_bytes():
    for name, vector in VECTORS.items():
        assert vector["name"] == name
        body = rawpack.from_json(vector["body"])
        encoded = rawpack.message(vector["kind"], vector["id"], body)
        assert encoded.hex() == vector["hex"], name
        version, kind, id, decoded = rawpack.unpack(encoded)
        assert (version, kind, id, decoded) == (1, vector["kind"], vector["id"], body), name
        assert list(decoded) == list(body), name


def test_every_message_has_a_vector():
    table = re.findall(r"^MESSAGE\((\d+), ", (PROTO / "messages.def").read_text(), re.M)
    assert {int(number) for number in table} == {vector["kind"] for vector in VECTORS.values()}
