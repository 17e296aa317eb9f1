"""A msgpack encoder and decoder made of struct alone, so that nothing is shared with what it tests.

Values are Python's own; text is str and bytes are bin. In the JSON of proto/vectors a bin value is written
{"$bin": "hex"} and a bin key "$bin:hex". Run with file names, this fills in the "hex" of the vectors in those.
"""

import json
import struct
import sys

PROTOCOL_VERSION = 1


def _head(n, fix, fix_limit, heads):
    """The head of something of length n: a fix form, or the first of (byte, format) it fits."""
    if n < fix_limit:
        return bytes([fix | n])
    for byte, form in heads:
        if n < 1 << (8 * struct.calcsize(form)):
            return bytes([byte]) + struct.pack(form, n)
    raise ValueError("too long")


def _pack_int(value):
    if value >= 0:
        return _head(value, 0, 128, [(0xCC, ">B"), (0xCD, ">H"), (0xCE, ">I"), (0xCF, ">Q")])
    if value >= -32:
        return struct.pack(">b", value)
    for byte, form in [(0xD0, ">b"), (0xD1, ">h"), (0xD2, ">i"), (0xD3, ">q")]:
        if value >= -(1 << (8 * struct.calcsize(form) - 1)):
            return bytes([byte]) + struct.pack(form, value)
    raise ValueError("too small")


def pack(value):
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return _pack_int(value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        text = value.encode()
        return _head(len(text), 0xA0, 32, [(0xD9, ">B"), (0xDA, ">H"), (0xDB, ">I")]) + text
    if isinstance(value, bytes):
        return _head(len(value), 0, 0, [(0xC4, ">B"), (0xC5, ">H"), (0xC6, ">I")]) + value
    if isinstance(value, (list, tuple)):
        head = _head(len(value), 0x90, 16, [(0xDC, ">H"), (0xDD, ">I")])
        return head + b"".join(pack(item) for item in value)
    if isinstance(value, dict):
        head = _head(len(value), 0x80, 16, [(0xDE, ">H"), (0xDF, ">I")])
        return head + b"".join(pack(key) + pack(item) for key, item in value.items())
    raise TypeError(type(value))


_SCALARS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_LENGTHS = {
    0xC4: ("bin", ">B"), 0xC5: ("bin", ">H"), 0xC6: ("bin", ">I"),
    0xD9: ("str", ">B"), 0xDA: ("str", ">H"), 0xDB: ("str", ">I"),
    0xDC: ("array", ">H"), 0xDD: ("array", ">I"), 0xDE: ("map", ">H"), 0xDF: ("map", ">I"),
}  # fmt: skip
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}


def _take(data, at, form):
    return struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)


def _unpack_at(data, at):
    head, at = data[at], at + 1
    if head < 0x80:
        return head, at
    if head >= 0xE0:
        return head - 256, at
    if head in _CONSTANTS:
        return _CONSTANTS[head], at
    if head in _SCALARS:
        return _take(data, at, _SCALARS[head])
    if head < 0xC0:
        kind = "map" if head < 0x90 else "array" if head < 0xA0 else "str"
        length = head & (0x1F if kind == "str" else 0x0F)
    else:
        kind, form = _LENGTHS[head]
        length, at = _take(data, at, form)
    if kind in ("str", "bin"):
        if at + length > len(data):
            raise ValueError("cut off")
        raw = data[at : at + length]
        return (raw.decode() if kind == "str" else raw), at + length
    items = []
    for _ in range(length * (2 if kind == "map" else 1)):
        item, at = _unpack_at(data, at)
        items.append(item)
    return (dict(zip(items[::2], items[1::2])) if kind == "map" else items), at


def unpack(data):
    value, at = _unpack_at(data, 0)
    if at != len(data):
        raise ValueError("something after the object")
    return value


def message(kind, id, body):
    return pack([PROTOCOL_VERSION, kind, id, body])


def from_json(value):
    """The value that the JSON notation of the vectors stands for."""
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if isinstance(value, dict):
        if list(value) == ["$bin"]:
            return bytes.fromhex(value["$bin"])
        return {_key(key): from_json(item) for key, item in value.items()}
    return value


def _key(key):
    return bytes.fromhex(key[5:]) if key.startswith("$bin:") else key


def _fill_in(path):
    with open(path, encoding="utf-8") as file:
        vectors = json.load(file)
    for vector in vectors:
        vector["hex"] = message(vector["kind"], vector["id"], from_json(vector["body"])).hex()
    with open(path, "w", encoding="utf-8") as file:
        json.dump(vectors, file, indent=2, ensure_ascii=False)
        file.write("\n")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        _fill_in(name)
