"""The golden vectors, against the independent encoder of rawpack."""

import json
import pathlib
import re

import pytest

from . import rawpack

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto"
VECTORS = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(PROTO.glob("vectors/*.json"))}


@pytest.mark.parametrize("name", VECTORS)
def test_same_bytes(name):
    vector = VECTORS[name]
    body = rawpack.from_json(vector["body"])
    encoded = rawpack.message(vector["kind"], vector["id"], body)
    assert encoded.hex() == vector["hex"]
    version, kind, id, decoded = rawpack.unpack(encoded)
    assert (version, kind, id) == (1, vector["kind"], vector["id"])
    assert decoded == body
    assert list(decoded) == list(body)


@pytest.mark.parametrize("name", VECTORS)
def test_named_as_its_file(name):
    assert VECTORS[name]["name"] == name


def test_every_message_has_a_vector():
    table = re.findall(r"^MESSAGE\((\d+), ", (PROTO / "messages.def").read_text(), re.M)
    assert {int(number) for number in table} == {vector["kind"] for vector in VECTORS.values()}
