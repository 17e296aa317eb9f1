"""PROTOCOL.md says what messages.def, errors.def, features.def, limits.h and the vectors say."""

import pathlib
import re
import struct

import pytest

from tests.support.vectors import VECTORS

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto"
DOC = (PROTO / "PROTOCOL.md").read_text("utf-8")
MESSAGES = re.findall(r'^MESSAGE\((\d+), (\w+), "(\w+)", "([^"]+)"\)$', (PROTO / "messages.def").read_text(), re.M)
ERRORS = re.findall(r'^ERROR\((\d+), (\w+), "(\w+)", "([^"]+)"\)$', (PROTO / "errors.def").read_text(), re.M)
FEATURES = re.findall(r'^FEATURE\("([a-z-]+)", "([^"]+)"\)$', (PROTO / "features.def").read_text(), re.M)
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def rows(heading):
    """The cells of the first table under a heading."""
    section = DOC.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    table = re.findall(r"^\|(.+)\|$", section.split("\n###", 1)[0], re.M)
    return [tuple(cell.strip() for cell in row.split("|")) for row in table[2:]]


def limits():
    """Name and value of every #define of limits.h that has a value."""
    defines = re.findall(r"^#define (\w+) +([^/\n]+)", (PROTO / "limits.h").read_text(), re.M)
    return {name: _evaluate(value) for name, value in defines}


def _evaluate(text):
    number, shift = re.fullmatch(r"\(?([\d.]+)(?:ull|u)?(?: << (\d+)\))?", text.strip()).groups()
    return float(number) if "." in number else int(number) << int(shift or 0)


@pytest.mark.parametrize("name", ["messages.def", "errors.def"])
def test_every_entry_is_read(name):
    text = (PROTO / name).read_text()
    entries = re.findall(r"^(?:MESSAGE|ERROR)\(", text, re.M)
    assert len(entries) == len({"messages.def": MESSAGES, "errors.def": ERRORS}[name]) > 0


@pytest.mark.parametrize("table", [MESSAGES, ERRORS], ids=["messages", "errors"])
def test_numbers_are_unique_and_ascend(table):
    numbers = [int(entry[0]) for entry in table]
    assert numbers == sorted(set(numbers))
    assert len({entry[1] for entry in table}) == len({entry[2] for entry in table}) == len(table)


def test_messages():
    assert [row[:3] for row in rows("Messages")] == [(n, name, direction) for n, _, name, direction in MESSAGES]


def test_message_names_are_the_identifiers_in_lower_case():
    assert [name for _, _, name, _ in MESSAGES] == [identifier.lower() for _, identifier, _, _ in MESSAGES]


def test_errors():
    documented = rows("Errors")
    assert [row[:2] for row in documented] == [(number, name) for number, _, name, _ in ERRORS]
    for (_, name, meaning), (_, _, _, full) in zip(documented, ERRORS):
        assert full.startswith(meaning), name


def test_features():
    assert len(FEATURES) == (PROTO / "features.def").read_text().count("\nFEATURE(") > 0
    assert rows("What a version promises") == [(f"`{name}`", meaning) for name, meaning in FEATURES]
    names = [name for name, _ in FEATURES]
    assert names == sorted(set(names))
    assert VECTORS["hello-reply"]["body"]["features"] == names


def test_limits():
    documented = {}
    for name, value, _ in rows("Limits"):
        number, unit = re.fullmatch(r"([\d.]+) ?(\w*)", value).groups()
        documented[name.strip("`")] = float(number) * UNITS[unit]
    assert documented == limits()


@pytest.mark.parametrize(
    "name, phrase",
    [
        ("PROTOCOL_VERSION", "# The Limpet protocol, version {}\n"),
        ("LIMIT_DEPTH", "nest deeper than {};"),
        ("LIMIT_NODES", "more than {} values"),
        ("LIMIT_KEYS", "a map of more than {} keys"),
        ("LIMIT_SESSION_NAME", "`session` (1 to {} of"),
        ("LIMIT_RUN_ID", "`run_id` is {} lower-case hexadecimal digits"),
        ("LIMIT_QUEUE", "Calls on one session queue in order, at most {},"),
        ("LIMIT_CREDIT", "A client may have {} `output` events under way"),
        ("GUEST_SECRET_SIZE", "`secret`, {} bytes"),
        ("TIMEOUT_MAXIMUM", "for a call without a timeout of its own; at most {:.0f} "),
        ("LIMIT_CODE", "`code` is text up to {mib} MiB"),
        ("LIMIT_OUTPUT", "| text | up to {mib} MiB each;"),
        ("LIMIT_FILE_CHUNK", "`data` (at most {mib} MiB)"),
        ("LIMIT_FILE_CHUNK", "(at most `size` or {mib} MiB"),
        ("MEMORY_MINIMUM", "memory of the container, at least {mib}m"),
    ],
)
def test_limits_in_the_text(name, phrase):
    value = limits()[name]
    assert phrase.format(value, mib=int(value) >> 20) in DOC


def examples():
    """Title and bytes of every hex block: the bytes of a line end at two spaces."""
    blocks = re.findall(r"^```hex title=\"([\w -]+)\"\n(.*?)^```$", DOC, re.M | re.S)
    return {
        title: bytes.fromhex("".join(re.split(r"  ", line, maxsplit=1)[0] for line in text.splitlines()))
        for title, text in blocks
    }


@pytest.mark.parametrize("name", ["hello", "hello-reply", "run", "run-reply"])
def test_example_messages(name):
    assert examples()[name].hex() == VECTORS[name]["hex"]


def test_example_handshake():
    shown = examples()
    assert shown["zmtp greeting"] == struct.pack(">B8xBBB20sB31x", 0xFF, 0x7F, 3, 0, b"NULL", 0)
    properties = b"".join(
        struct.pack(">B", len(name)) + name + struct.pack(">I", len(value)) + value
        for name, value in [(b"Socket-Type", b"DEALER"), (b"Identity", b"")]
    )
    command = b"\x05READY" + properties
    assert shown["zmtp ready"] == struct.pack(">BB", 0x04, len(command)) + command


def test_example_frames():
    shown = examples()
    hello = shown["hello"]
    assert shown["zmtp short"] == struct.pack(">BB", 0, len(hello)) + hello
    assert shown["zmtp long"] == struct.pack(">BQ", 2, len(hello)) + hello


def test_every_example_is_checked():
    checked = {"hello", "hello-reply", "run", "run-reply"}
    assert set(examples()) == checked | {"zmtp greeting", "zmtp ready", "zmtp short", "zmtp long"}
