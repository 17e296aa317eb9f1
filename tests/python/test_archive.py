"""Saved sessions as files: what is written is read again, and what is wrong in one is said, whatever it is."""

import hashlib
import io
import json
import os
import resource
import signal
import tarfile

import limpet
import pytest
from limpet._saved import _archive, _saving
from limpet._saved._archive import Member

MANIFEST = {"format": "limpet-session", "version": 1, "options": {}, "execution_count": 3}
PLACE = "/session/.limpet-saved-0"


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "a.limpet")


def write(path, *members, manifest=MANIFEST):
    """Of members, and the data of each, in pieces."""
    writer = _archive.Writer(path)
    writer.add("manifest.json", json.dumps(manifest).encode())
    for member, *pieces in members:
        writer.begin(member)
        for piece in pieces:
            writer.write(piece)
        writer.end()
    return writer.finish()


def seal(path, data):
    """Any bytes, with the right checksum behind them."""
    check = io.BytesIO()
    info = tarfile.TarInfo("limpet.sha256")
    info.size = 65
    check.write(info.tobuf(tarfile.GNU_FORMAT))
    check.write(f"{hashlib.sha256(data).hexdigest()}\n".encode().ljust(512, b"\0"))
    with open(path, "wb") as file:
        file.write(data + check.getvalue() + bytes(1024))


def head(name, kind=tarfile.REGTYPE, size=0, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, size, link
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def manifest(**but):
    data = json.dumps({**MANIFEST, **but}).encode()
    return head("manifest.json", size=len(data)) + data.ljust(-(-len(data) // 512) * 512, b"\0")


def members(path):
    with _archive.Reader(path) as archive:
        return [(member, b"".join(piece for _, piece in archive.data(member))) for member in archive.members()]


def test_what_is_written_is_read(path):
    name = "files/" + "ü\udcff" * 200
    many = tuple((at * 10_000, 10) for at in range(50))
    size = write(
        path,
        (Member(name, "file", 0o640, 3, data=((0, 3),), modified=5.5), b"a", b"bc"),
        (Member("files/sparse", "file", 0o600, 20_000_000_000, data=many), *[b"0123456789"] * 50),
        (Member("files/hole", "file", 0o600, 1000), ),
        (Member("files/empty", "file", 0o600), ),
        (Member("files/d", "directory", 0o700), ),
        (Member("files/l", "symlink", 0o777, target="x" * 300), ),
    )  # fmt: skip
    assert size == os.path.getsize(path) < 30_000
    read = members(path)
    assert [(member.name, member.kind, member.mode, member.size) for member, _ in read] == [
        (name, "file", 0o640, 3), ("files/sparse", "file", 0o600, 20_000_000_000), ("files/hole", "file", 0o600, 1000),
        ("files/empty", "file", 0o600, 0), ("files/d", "directory", 0o700, 0), ("files/l", "symlink", 0o777, 0),
    ]  # fmt: skip
    assert read[0][1] == b"abc" and len(read[1][1]) == 500 and read[5][0].target == "x" * 300
    with tarfile.open(path, errors="surrogateescape") as tar:
        found = {member.name: member for member in tar.getmembers()}
        assert found["files/sparse"].size == 20_000_000_000 and found[name].mtime == 5 and found["files/l"].linkname == "x" * 300
        assert tar.extractfile(found[name]).read() == b"abc"


def test_what_was_promised_and_did_not_come_is_filled_up(path):
    write(path, (Member("files/a", "file", 0o600, 700, data=((0, 700),)), b"abc"), (Member("files/b", "file", 0o600, 1, data=((0, 1),)), b"b"))
    (_, a), (_, b) = members(path)
    assert a == b"abc" + bytes(697) and b == b"b"


def test_going_back_leaves_nothing(path):
    writer = _archive.Writer(path)
    writer.add("manifest.json", json.dumps(MANIFEST).encode())
    mark = writer.mark()
    writer.begin(Member("files/a", "file", 0o600, 700, data=((0, 700),)))
    writer.write(b"abc")
    writer.back(mark)
    writer.add("files/b", b"b")
    writer.finish()
    assert [member.name for member, _ in members(path)] == ["files/b"]


def test_nothing_is_there_until_it_is_whole(path, tmp_path):
    writer = _archive.Writer(path)
    writer.add("manifest.json", b"{}")
    assert not os.path.exists(path)
    writer.close()
    assert os.listdir(tmp_path) == []


def test_nothing_is_left_where_there_is_no_room(path, tmp_path):
    """The kernel refuses what is beyond a limit as it refuses what is beyond the disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    writer = _archive.Writer(path)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
        with pytest.raises(OSError):
            writer.add("files/a", bytes(200_000))
            writer.finish()
        writer.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("at", [0, 100, 600, -2048, -1500, -1536, -600])
def test_damage_is_found(path, at):
    write(path, (Member("files/a", "file", 0o600, 3, data=((0, 3),)), b"abc"))
    data = bytearray(open(path, "rb").read())
    data[at] ^= 1
    open(path, "wb").write(data)
    if at == -600:  # behind the checksum there is nothing
        members(path)
        return
    with pytest.raises(limpet.RestoreFailed, match="nothing was restored"):
        _archive.Reader(path)


def test_every_cut_is_found(path):
    write(path, (Member("files/a", "file", 0o600, 600, data=((0, 600),)), b"abc"))
    data = open(path, "rb").read()
    for size in range(0, len(data), 256):
        open(path, "wb").write(data[:size])
        with pytest.raises(limpet.RestoreFailed):
            _archive.Reader(path)


MANIFESTS = [
    (b"", "malformed|does not end"),
    (head("other"), "no manifest"),
    (manifest(format="other"), "cannot be read"),
    (manifest(version=2), "version 2 of the format"),
    (manifest(execution_count=-1), "cannot be read"),
    (manifest(execution_count=True), "cannot be read"),
    (manifest(options=[]), "cannot be read"),
    (head("manifest.json", size=5) + b"[[[[[".ljust(512, b"\0"), "cannot be read"),
    (head("manifest.json", size=1 << 40), "no manifest"),
    (head("manifest.json", size=1 << 20), "does not end"),
    (b"\xff" * 512, "malformed"),
]


@pytest.mark.parametrize("data, says", MANIFESTS, ids=range(len(MANIFESTS)))
def test_what_is_wrong_with_a_manifest_is_said(path, data, says):
    seal(path, data)
    with pytest.raises(limpet.RestoreFailed, match=says):
        _archive.Reader(path)


def sparse(*entries, size, stored):
    block = bytearray(head("files/a", tarfile.REGTYPE, stored))
    block[156:157] = tarfile.GNUTYPE_SPARSE
    for number, (start, length) in enumerate(entries):
        block[386 + 24 * number : 410 + 24 * number] = b"%011o\0%011o\0" % (start, length)
    block[483:495] = b"%011o\0" % size
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


MEMBERS = [
    (head("files/a", size=10_000), "does not end"),
    (head("files/a", tarfile.LNKTYPE, link="files/b"), "no file, directory or link"),
    (head("files/a", tarfile.CHRTYPE), "no file, directory or link"),
    (head("files/a", tarfile.FIFOTYPE), "no file, directory or link"),
    (head("files/a", tarfile.GNUTYPE_LONGNAME, size=1 << 30), "too long"),
    (head("files/../../etc/passwd"), "it has 'files/../../etc/passwd'"),
    (head("/etc/passwd"), "it has"),
    (head("files/.limpet/spilled"), "it has"),
    (head("elsewhere"), "it has"),
    (head("files//a"), "it has"),
    (sparse((0, 10), (5, 10), size=100, stored=20) + bytes(512), "overlap"),
    (sparse((90, 20), size=100, stored=20) + bytes(512), "overlap"),
    (sparse((0, 10), size=100, stored=20) + bytes(512), "not all there"),
]


@pytest.mark.proves("security: saved sessions that somebody else made")
@pytest.mark.parametrize("data, says", MEMBERS, ids=range(len(MEMBERS)))
def test_what_is_wrong_with_a_member_is_said(path, data, says):
    seal(path, manifest() + data)
    with _archive.Reader(path) as archive, pytest.raises(limpet.RestoreFailed, match=says):
        for step in _saving.Unpacking(archive, PLACE, True).steps():
            if not isinstance(step, list):
                list(archive.data(step[1]))


def test_rows_for_a_sandbox(path):
    write(
        path,
        (Member("variables", "file", 0o600, 1, data=((0, 1),)), b"v"),
        (Member("files/closed", "directory", 0o500), ),
        (Member("files/closed/a", "file", 0o640, 10, data=((4, 2),)), b"xy"),
        (Member("files/out", "symlink", 0o777, target="/etc/passwd"), ),
        (Member("files/large", "file", 0o600, 300_000, data=((0, 300_000),)), bytes(300_000)),
    )  # fmt: skip
    seen = []
    with _archive.Reader(path) as archive:
        for step in _saving.Unpacking(archive, PLACE, True).steps():
            if isinstance(step, list):
                seen.append([(row["path"], row.get("mode"), row.get("data") or row.get("target")) for row in step])
            else:
                seen.append((step[0], sum(len(piece) for _, piece in archive.data(step[1]))))
    assert seen == [
        ("large", 300_000),
        [
            (b".limpet-saved-0/variables", 0o600, b"v"), (b"closed", 0o700, None),
            (b"closed/a", 0o640, bytes(4) + b"xy" + bytes(4)), (b"out", None, b"/etc/passwd"),
        ],
        [(b"closed", 0o500, None)],
    ]  # fmt: skip


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"[" * 100_000, b'{"variables": [1]}', b'{"variables": [{"name": "a"}], "python": 1, "packages": [], "skipped": []}'])
def test_what_a_sandbox_says_is_checked(data):
    with pytest.raises(limpet.ProtocolMismatch):
        _saving.Index(data)


@pytest.mark.parametrize("path", [b"/etc/passwd", b"/session/../x", b"/session//x", b"/sessions/x"])
def test_names_from_a_sandbox_are_checked(path):
    with pytest.raises(limpet.ProtocolMismatch):
        _saving.items([{"path": path, "type": "file"}], [])


@pytest.mark.parametrize("lines", ["greeting==1.0", [1], {}])
def test_requirements_that_are_none(lines):
    with pytest.raises(limpet.RestoreFailed, match="damaged: its `requirements`"):
        _saving.options_of({"options": {}, "requirements": lines}, {})


@pytest.mark.parametrize("path, error", [("", IsADirectoryError), ("none/file", FileNotFoundError)])
def test_a_place_that_is_none_is_named_as_it_was_given(tmp_path, path, error):
    with pytest.raises(error) as caught:
        _archive.Writer(str(tmp_path / path))
    assert caught.value.filename == str(tmp_path / path) and list(tmp_path.iterdir()) == []
