"""Arrays, tables and frames to a session and back, without a detour through text.

An engine that does not isolate has the packages of this Python; the image has NumPy and pandas of its own.
"""

import contextlib
import os
import random

import limpet
import pytest
from limpet._serialization import _codec, _tables

numpy = pytest.importorskip("numpy")
pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow")


def local(value):
    return _codec.load(memoryview(bytearray(b"".join(_codec.dump(value)))))


@pytest.fixture
def session(client, limpetd, name):
    with client.open(name, memory="1g", timeout=120) as session:
        if not limpetd.isolates:
            session.run(f"import sys; sys.path.append({os.path.dirname(os.path.dirname(numpy.__file__))!r})").check()
        yield session


ARRAYS = [
    numpy.arange(12, dtype="int16").reshape(3, 4)[:, ::2], numpy.asfortranarray(numpy.ones((2, 3))), numpy.array(1.5),
    numpy.array([], dtype="f4"), numpy.zeros((0, 5)), numpy.array([True, False]), numpy.array(["a", "ünü"]),
    numpy.array([b"x", b"yz"]), numpy.array([1 + 2j], dtype="c8"), numpy.arange(3, dtype=">i4"),
    numpy.array(["2026-01-01", "NaT"], dtype="M8[D]"), numpy.array([5], dtype="m8[ns]"),
]  # fmt: skip


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}-{array.shape}")
def test_arrays_here(array):
    again = local(array)
    assert again.dtype == array.dtype and again.shape == array.shape
    numpy.testing.assert_array_equal(again, array)
    assert again.flags.writeable


@pytest.mark.parametrize("array", [numpy.array([object()]), numpy.ma.array([1, 2], mask=[0, 1]), numpy.zeros(2, dtype="i4,f8")])
def test_arrays_that_cannot_go(array):
    with pytest.raises(TypeError):
        _codec.dump(array)


def test_numbers_of_numpy_are_pythons():
    assert [type(local(numpy.dtype(kind).type(1))) for kind in ("i8", "u1", "f4", "?")] == [int, int, float, bool]


def rows(count):
    return ["range", [0, count, 1], None]


NAMES = ["values", ["object", ["a"]], None, None]
EMPTY = {"frame": [[], rows(2), ["values", ["object", []], None, None]]}


@pytest.mark.parametrize(
    "node",
    [
        {"array": [0, "<i8", [3]]}, {"array": [0, "<i8", [-1, -2]]}, {"array": [0, "|O", [2]]}, {"array": [0, "<f8", [2, True]]},
        {"array": [0, "i4,O", [2]]}, {"array": [1, "<i8", [2]]}, {"array": [0, "<i8", [1 << 70]]}, {"array": [0, "<U99999999", [1]]},
        {"table": 0}, EMPTY, {"frame": [[["object", [1]]], rows(5), NAMES]}, {"series": [["object", [1, 2]], rows(3), "n"]},
        {"series": [["object", 1], rows(1 << 40), "n"]}, {"frame": [[["text", ["x"], True]], rows(1 << 40), NAMES]},
    ],
)  # fmt: skip
def test_hostile_arrays_and_tables(node):
    header = _codec.json.dumps({"value": node, "sizes": [16]}).encode()
    data = _codec.MAGIC + len(header).to_bytes(8, "little") + header
    data += bytes(-len(data) % 64) + bytes(16)
    if node == EMPTY:
        assert _codec.load(memoryview(bytearray(data))).shape == (2, 0)
        return
    with pytest.raises(ValueError):
        _codec.load(memoryview(bytearray(data)))


TEN_ZEROS = pyarrow.table({"zeros": numpy.zeros(10 << 17)})  # 10 MiB
WORDS = pyarrow.table({"words": pyarrow.array(["word" * 9999] * 9).dictionary_encode()})


def stream(table, compression):
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema, options=pyarrow.ipc.IpcWriteOptions(compression=compression)) as out:
        out.write_table(table)
    return bytearray(sink.getvalue())


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
@pytest.mark.parametrize("table", [TEN_ZEROS, WORDS], ids=["batch", "dictionary"])
def test_a_compressed_table_is_not_decoded(table, compression):
    data = stream(table, compression)
    assert pyarrow.ipc.open_stream(data).read_all() == table
    with pytest.raises(ValueError, match="a table is compressed"):
        _tables.check(memoryview(data))
    _tables.check(memoryview(stream(table, None)))


def test_damaged_tables_are_errors_of_ours():
    source, whole = random.Random(5), stream(WORDS, "zstd")
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(source.randrange(1, 4)):
            data[source.randrange(min(800, len(data)))] = source.randrange(256)
        with contextlib.suppress(ValueError):
            _tables.check(memoryview(data))


BOMB = """
def bomb():
    import types
    codec = __import__("sys").modules["limpet_runtime.values"]
    class Stream(bytes): pass
    def node(self, value):
        return {"table": self._part(value)} if type(value) is Stream else plain(self, value)
    plain, codec._Writing.node = codec._Writing.node, node
    return Stream(data)
"""


def test_a_bomb_from_a_session_is_refused(session):
    session.value("1")
    session.set("data", bytes(stream(TEN_ZEROS, "zstd")))
    session.run(BOMB).check()
    with pytest.raises(limpet.CallFailed, match="a table is compressed"):
        session.value("bomb()")


@pytest.mark.parametrize("node", [[{"bytes": 0}] * 2, [{"bytes": 0}, {"bytes": -1}], {"array": [1, "|S0", [1 << 40]]}])
def test_little_does_not_become_much(node):
    header = _codec.json.dumps({"value": node, "sizes": [16, 0] if "array" in node else [16]}).encode()
    data = bytearray(_codec.MAGIC + len(header).to_bytes(8, "little") + header)
    data += bytes(-len(data) % 64) + bytes(64)
    with pytest.raises(ValueError, match="used twice|array of"):
        _codec.load(memoryview(data))


FRAMES = [
    pandas.DataFrame({"n": [1, 2], "x": [0.5, None], "s": ["a", None], "b": [True, False]}),
    pandas.DataFrame({"t": pandas.to_datetime(["2026-01-01", None])}, index=["r", "s"]),
    pandas.DataFrame({("a", 1): [1], ("a", 2): [2]}), pandas.DataFrame(), pandas.DataFrame({"a": []}, dtype="int8"),
]  # fmt: skip


@pytest.mark.parametrize("frame", FRAMES, ids=range(len(FRAMES)))
def test_frames_here(frame):
    again = local(frame)
    pandas.testing.assert_frame_equal(again.astype(object), frame.astype(object), check_column_type=False)
    assert [str(kind) for kind in again.dtypes] == [str(kind) for kind in frame.dtypes]


def test_tables_here():
    table = pyarrow.table({"n": [1, None, 3], "s": ["a", "b", None], "l": [[1], [], None]})
    assert local(table).equals(table) and local(table.to_batches()[0]).equals(table)
    assert local({"tables": [table]})["tables"][0].equals(table)


def test_to_a_session_and_back(session):
    array = numpy.arange(1_000_000, dtype="f8").reshape(1000, 1000)
    session.set("a", array)
    assert session.run("type(a).__module__, a.shape, a.dtype.str, float(a.sum())").result == repr(
        ("numpy", array.shape, "<f8", float(array.sum()))
    )
    session.run("a *= 2").check()
    numpy.testing.assert_array_equal(session.value("a"), array * 2)
    assert session.value("a.sum()") == float(array.sum() * 2)
    session.set("df", pandas.DataFrame({"n": range(5), "s": list("abcde")}))
    assert session.value("df.groupby(df.n % 2).n.sum()").to_dict() == {0: 6, 1: 4}


def test_tables_to_a_session_and_back(session):
    if not session.run("import pyarrow").ok:
        pytest.skip("the image has no pyarrow")
    table = pyarrow.table({"n": list(range(100_000)), "s": ["x"] * 100_000})
    session.set("t", table)
    assert session.value("t").equals(table) and session.value("t.num_rows") == 100_000


def test_what_is_not_installed_here_is_named(monkeypatch, session):
    monkeypatch.setitem(__import__("sys").modules, "numpy", None)
    with pytest.raises(ImportError, match="the value needs numpy"):
        session.value("__import__('numpy').zeros(3)")
