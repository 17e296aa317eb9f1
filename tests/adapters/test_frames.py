"""Frames through the codec of set() and value(): they come back as they went, or the column that cannot go is named."""

import datetime
import decimal
import pathlib
import zoneinfo

import numpy
import pandas
import pytest
from limpet._serialization import _codec
from pandas.testing import assert_frame_equal, assert_series_equal


def again(value):
    return _codec.load(memoryview(b"".join(_codec.dump(value))))


BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
DAYS = pandas.date_range("2026-03-28", periods=3)
COLUMNS = {
    "category": pandas.Categorical(["b", "a", None], categories=["b", "a", "c"], ordered=True),
    "category of days": pandas.Categorical(DAYS),
    "zone": DAYS.tz_localize("Europe/Berlin"),
    "offset": DAYS.tz_localize("UTC").tz_convert(datetime.timezone(datetime.timedelta(hours=3))),
    "days": pandas.Series([DAYS[0], pandas.NaT, DAYS[1]]),
    "seconds": numpy.array([1, 2, 3], "M8[s]"),
    "times": pandas.to_timedelta([1, None, 3], unit="s"),
    "integers": pandas.array([1, None, 3], dtype="Int64"),
    "small": pandas.array([1, None, 3], dtype="UInt8"),
    "floats": pandas.array([1.5, None, 3], dtype="Float32"),
    "flags": pandas.array([True, None, False], dtype="boolean"),
    "texts": pandas.array(["a", None, "c"], dtype="string"),
    "plain texts": ["a", None, "c"],
    "period": pandas.PeriodIndex(["2026-01", None, "2026-03"], freq="M"),
    "quarter": pandas.period_range("2026Q1", periods=3, freq="Q-NOV"),
    "objects": pandas.Series(["a", None, float("nan")], dtype=object),
    "python": pandas.Series([datetime.date(2026, 1, 2), decimal.Decimal("1.50"), pathlib.Path("/a")], dtype=object),
    "pandas": pandas.Series([pandas.NA, pandas.NaT, pandas.Timestamp("2026-01-01", tz="Europe/Berlin")], dtype=object),
    "more": pandas.Series([pandas.Period("2026-01", "M"), pandas.Timedelta("1s"), (1, [2])], dtype=object),
    "complex": numpy.array([1j, 2, 3]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns(name):
    frame = pandas.DataFrame({name: COLUMNS[name]})
    assert_frame_equal(again(frame), frame, check_column_type=True)
    assert_series_equal(again(frame[name]), frame[name])
    if frame[name].dtype != object:
        indexed = frame.set_index(name, drop=False)
        assert_frame_equal(again(indexed), indexed)


@pytest.mark.parametrize(
    "index",
    [
        pandas.RangeIndex(5, 8, name="row"),
        pandas.Index(["a", "b", "a"], name="letter"),
        DAYS.rename("day"),
        pandas.MultiIndex.from_arrays([["a", "a", "b"], DAYS, pandas.Categorical([1, 2, 1])], names=["x", None, "z"]),
    ],
    ids=str,
)
def test_indexes(index):
    frame = pandas.DataFrame(numpy.arange(9).reshape(3, 3), index, index)
    made = again(frame)
    assert_frame_equal(made, frame, check_names=True)
    assert made.index.names == frame.index.names and type(made.index) is type(frame.index)
    assert_frame_equal(again(frame.iloc[:0]), frame.iloc[:0], check_index_type=False, check_column_type=False)


@pytest.mark.parametrize(
    "value",
    [
        datetime.datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1), datetime.datetime(2026, 1, 1, 1, 1, 1, 5),
        datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(minutes=-90))), datetime.date(1, 1, 1),
        datetime.time(1, 2, 3, 4), datetime.timedelta(-1, 5, 7), decimal.Decimal("-1.2300E+5"), pathlib.Path("a/b"),
        pathlib.PurePosixPath("/x"), {datetime.date(2026, 1, 1): [decimal.Decimal("NaN")]},
    ],
    ids=repr,
)  # fmt: skip
def test_other_values(value):
    made = again(value)
    assert type(made) is type(value) and repr(made) == repr(value)
    if isinstance(value, datetime.datetime):
        assert (made.fold, made.utcoffset()) == (value.fold, value.utcoffset())


def test_what_cannot_go_is_named():
    with pytest.raises(TypeError, match="column 'between'.*interval"):
        again(pandas.DataFrame({"a": [1], "between": [pandas.Interval(0, 1)]}))
    with pytest.raises(TypeError, match="column 'odd'.*object is no plain data"):
        again(pandas.DataFrame({"odd": [object()]}))
    with pytest.raises(TypeError, match="an index"):
        again(pandas.DataFrame({"a": [1]}, pandas.IntervalIndex.from_breaks([0, 1])))


@pytest.mark.parametrize(
    "column",
    [
        ["zoned", {"array": [0, "<M8[ns]", [1]]}, "dateutil//etc/passwd"], ["zoned", {"array": [0, "<M8[ns]", [1]]}, "../x"],
        ["nullable", "object", {"array": [0, "<i8", [1]]}, {"array": [1, "|b1", [1]]}], ["eval", {"array": [0, "<i8", [1]]}],
        ["category", {"array": [0, "<i8", [1]]}, ["text", ["a"], True], False], ["numpy", [1]],
    ],
    ids=str,
)  # fmt: skip
def test_hostile_columns(column):
    header = _codec.json.dumps({"value": {"frame": [[column], ["range", [0, 1, 1], None], ["values", ["text", ["a"], True], None, None]]}, "sizes": [8, 1]}).encode()
    start = len(_codec.MAGIC) + 8 + len(header)
    data = _codec.MAGIC + len(header).to_bytes(8, "little") + header + bytes(-start % 64) + b"\x07" * 8 + bytes(56) + b"\0"
    with pytest.raises(ValueError):
        _codec.load(memoryview(data))
