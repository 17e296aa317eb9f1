"""Values as bytes, and back. The sandbox gets this text too, so it takes nothing from the package.

What is read may be hostile: nothing in it names code, and every size is compared with what is there. It is a header in
JSON, in which an object ``{"tuple": ...}`` stands for what JSON has not, and behind it the bytes of arrays and tables.
"""

from __future__ import annotations

import datetime
import decimal
import importlib
import json
import math
import pathlib
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

MAGIC = b"limpet1\n"
ALIGNMENT = 64
HEADER = 64 << 20  # bytes at most
_DTYPE = re.compile(r"[<>|=]([biufcSU]\d{1,9}|[Mm]8(\[\d{0,9}[A-Za-z]{1,7}\])?)")
_KINDS = (
    "None, bool, int, float, complex, str, bytes, list, tuple, set, dict, times, Decimal, Path, NumPy arrays, "
    "Arrow tables and pandas frames of them"
)
# Names that pandas takes for more than what is meant here are none: "dateutil/" reads any file.
_ZONE = re.compile(r"(?!dateutil/)[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*|UTC[+-]\d\d:\d\d")
_UNIT = re.compile(r"s|ms|us|ns")
_FREQUENCY = re.compile(r"-?[A-Za-z0-9]{1,12}(-[A-Z]{3})?")
_NULLABLE = re.compile(r"(U?Int|Float)(8|16|32|64)|boolean")
_PATHS = {"PosixPath": pathlib.Path, "PurePosixPath": pathlib.PurePosixPath}

Part = bytes | memoryview


def dump(value: Any) -> list[Part]:
    """The parts of the bytes, in their order. TypeError or ValueError for what there is no way to write."""
    writing = _Writing()
    try:
        node = writing.node(value)
        header = json.dumps({"value": node, "sizes": [len(part) for part in writing.parts]}).encode()
    except RecursionError:
        raise ValueError("the value is nested too deeply") from None
    if len(header) > HEADER:
        raise ValueError(
            f"the value has {len(header)} bytes beside its arrays and tables, and {HEADER} are allowed"
        )
    parts: list[Part] = [MAGIC, len(header).to_bytes(8, "little"), header]
    at = len(MAGIC) + 8 + len(header)
    for part in writing.parts:
        parts += [bytes(-at % ALIGNMENT), part]
        at += -at % ALIGNMENT + len(part)
    return parts


def load(data: memoryview, check_table: Callable[[memoryview], None] = lambda stream: None) -> Any:
    """The value; ValueError for what is malformed, ImportError where a package is missing to hold it.

    ``check_table`` raises ValueError for a stream of Arrow that is not to be decoded.
    """
    start = len(MAGIC) + 8
    if bytes(data[: len(MAGIC)]) != MAGIC or len(data) < start:
        raise ValueError("these are not the bytes of a value")
    size = int.from_bytes(data[len(MAGIC) : start], "little")
    if size > min(HEADER, len(data) - start):
        raise ValueError("the header is larger than what there is")
    try:
        header = json.loads(bytes(data[start : start + size]))
        parts = _parts(data, start + size, header["sizes"])
        return _Reading(parts, check_table).value(header["value"])
    except ImportError:
        raise
    except Exception as error:  # NumPy, pandas and Arrow have many kinds of their own
        raise ValueError(f"a value is malformed: {error!r}") from error


def _parts(data: memoryview, at: int, sizes: Iterable[int]) -> list[memoryview]:
    parts = []
    for size in sizes:
        at += -at % ALIGNMENT
        if type(size) is not int or not 0 <= size <= len(data) - at:
            raise ValueError("a part is larger than what there is")
        parts.append(data[at : at + size])
        at += size
    return parts


def _library(value: Any) -> str:
    return str(type(value).__module__).partition(".")[0]


class _Writing:
    def __init__(self) -> None:
        self.parts: list[Part] = []

    def node(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return value
        if kind is list:
            return [self.node(item) for item in value]
        if kind is dict:
            return {"dict": [[self.node(key), self.node(item)] for key, item in value.items()]}
        if kind in (tuple, set, frozenset):
            return {kind.__name__: [self.node(item) for item in value]}
        if kind in (bytes, bytearray, memoryview):
            return {"bytes": self._part(bytes(value))}
        if kind is complex:
            return {"complex": [value.real, value.imag]}
        if kind in (datetime.datetime, datetime.time):
            return {
                kind.__name__: [value.replace(tzinfo=None).isoformat(), self._zone(value.tzinfo), value.fold]
            }
        if kind is datetime.date:
            return {"date": value.isoformat()}
        if kind is datetime.timedelta:
            return {"timedelta": [value.days, value.seconds, value.microseconds]}
        if kind is decimal.Decimal:
            return {"decimal": str(value)}
        if kind.__name__ in _PATHS and isinstance(value, pathlib.PurePath):
            return {"path": [kind.__name__, str(value)]}
        other: Callable[[Any], Any] | None = getattr(self, f"_{_library(value)}", None)
        node = other(value) if other else None
        if node is None:
            raise TypeError(f"{kind.__qualname__} is no plain data ({_KINDS})")
        return node

    def _part(self, data: Part) -> int:
        self.parts.append(data)
        return len(self.parts) - 1

    def _numpy(self, value: Any) -> Any:
        import numpy

        if isinstance(value, numpy.generic) and value.dtype.kind in "biufcSU":
            return self.node(value.item())
        if isinstance(value, numpy.ma.MaskedArray) or not isinstance(value, (numpy.ndarray, numpy.generic)):
            return None
        array = numpy.asarray(value, order="C")
        if not _DTYPE.fullmatch(array.dtype.str):
            raise TypeError(f"an array of {array.dtype} is no plain data ({_KINDS})")
        flat = array.reshape(-1).view("u1").data if array.nbytes else b""
        return {"array": [self._part(flat), array.dtype.str, list(array.shape)]}

    def _pyarrow(self, value: Any) -> Any:
        import pyarrow

        if isinstance(value, pyarrow.RecordBatch):
            value = pyarrow.Table.from_batches([value])
        if not isinstance(value, pyarrow.Table):
            return None
        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, value.schema) as stream:
            stream.write_table(value)
        return {"table": self._part(memoryview(sink.getvalue()))}

    def _polars(self, value: Any) -> Any:
        return self._pyarrow(value.to_arrow()) if type(value).__name__ == "DataFrame" else None

    def _zone(self, zone: Any) -> Any:
        """Of a time: None, seconds, or a name."""
        if zone is None:
            return None
        if type(zone) is datetime.timezone:
            return zone.utcoffset(None).total_seconds()
        name = getattr(zone, "key", None) or getattr(zone, "zone", None) or str(zone)
        if not isinstance(name, str) or not _ZONE.fullmatch(name):
            raise TypeError(f"the time zone {zone!r} has no name that can be sent")
        return name

    def _pandas(self, value: Any) -> Any:
        import pandas

        if value is pandas.NA or value is pandas.NaT:
            return {"missing": "NA" if value is pandas.NA else "NaT"}
        if isinstance(value, (pandas.Timestamp, pandas.Timedelta)):
            zone = self._zone(getattr(value, "tzinfo", None))
            return {type(value).__name__: [int(value.asm8.astype("i8")), value.unit, zone]}
        if isinstance(value, pandas.Period):
            return {"Period": [value.ordinal, value.freqstr]}
        if isinstance(value, pandas.Series):
            values = self._named(f"the series {value.name!r}", value)
            return {"series": [values, self._index(value.index), self.node(value.name)]}
        if not isinstance(value, pandas.DataFrame):
            return None
        columns = [
            self._named(f"column {name!r}", value.iloc[:, at]) for at, name in enumerate(value.columns)
        ]
        return {"frame": [columns, self._index(value.index), self._index(value.columns)]}

    def _named(self, name: str, column: Any) -> Any:
        try:
            return self._column(column)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name}: {error}") from None

    def _column(self, column: Any) -> Any:
        """Of a frame or an index: what makes an array of its type."""
        import numpy
        import pandas

        dtype, name = column.dtype, str(column.dtype)
        if isinstance(dtype, numpy.dtype) and _DTYPE.fullmatch(dtype.str):
            return ["numpy", self.node(column.to_numpy())]
        if name == "object":
            return ["object", [self.node(item) for item in column.tolist()]]
        missing = column.isna()
        missing = missing.to_numpy() if hasattr(missing, "to_numpy") else missing
        if isinstance(dtype, pandas.StringDtype):
            texts = [None if none else item for item, none in zip(column.tolist(), missing, strict=True)]
            return ["text", texts, dtype.na_value is pandas.NA]
        if _NULLABLE.fullmatch(name):
            kind = "bool" if name == "boolean" else name.lower()
            filled = column.array.to_numpy(dtype=kind, na_value=False if kind == "bool" else 0)
            return ["nullable", name, self.node(filled), self.node(missing)]
        if isinstance(dtype, pandas.CategoricalDtype):
            codes = column.array.codes
            return ["category", self.node(codes), self._column(dtype.categories), bool(dtype.ordered)]
        if isinstance(dtype, pandas.DatetimeTZDtype):
            return [
                "zoned",
                self.node(column.array.tz_convert("UTC").tz_localize(None).to_numpy()),
                self._zone(dtype.tz),
            ]
        if isinstance(dtype, pandas.PeriodDtype):
            return ["period", self.node(column.array.asi8), name[len("period[") : -1]]
        raise TypeError(f"a column of the type {name} cannot be sent")

    def _index(self, index: Any) -> Any:
        import pandas

        if isinstance(index, pandas.MultiIndex):
            levels = [
                self._named(f"level {name!r} of an index", index.get_level_values(at))
                for at, name in enumerate(index.names)
            ]
            return ["levels", levels, self.node(list(index.names))]
        if isinstance(index, pandas.RangeIndex):
            return ["range", [index.start, index.stop, index.step], self.node(index.name)]
        values = self._named("an index", index)
        return ["values", values, self.node(index.name), getattr(index, "freqstr", None)]


class _Reading:
    def __init__(self, parts: list[memoryview], check_table: Callable[[memoryview], None]) -> None:
        self._parts: list[memoryview | None] = [*parts]
        self._check_table = check_table

    def _part(self, at: int) -> memoryview:
        """Of one value each: repeated, a part would become any size."""
        part, self._parts[at] = self._parts[at], None
        if part is None:
            raise ValueError("a part is used twice")
        return part

    def value(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self.value(item) for item in node]
        if not isinstance(node, dict):
            return node
        ((tag, content),) = node.items()
        if tag in ("tuple", "set", "frozenset"):
            made = {"tuple": tuple, "set": set, "frozenset": frozenset}[tag]
            return made(self.value(item) for item in content)
        if tag in ("Timestamp", "Timedelta", "Period", "missing"):
            return self._of_pandas(tag, content)
        readers: dict[str, Callable[[Any], Any]] = {
            "datetime": lambda time: self._time(datetime.datetime, *time),
            "time": lambda time: self._time(datetime.time, *time),
            "date": datetime.date.fromisoformat,
            "timedelta": lambda parts: datetime.timedelta(*parts),
            "decimal": decimal.Decimal,
            "path": lambda path: _PATHS[path[0]](path[1]),
            "dict": self._dict,
            "bytes": lambda at: bytes(self._part(at)),
            "complex": lambda pair: complex(*pair),
            "array": lambda array: self._array(*array),
            "table": self._table,
            "series": lambda series: self._series(*series),
            "frame": lambda frame: self._frame(*frame),
        }
        return readers[tag](content)

    def _dict(self, pairs: list[list[Any]]) -> dict[Any, Any]:
        return {self.value(key): self.value(item) for key, item in pairs}

    def _array(self, at: int, dtype: str, shape: list[int]) -> Any:
        numpy = _needed("numpy")
        if not _DTYPE.fullmatch(dtype) or not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError(f"no array of {dtype!r} and {shape!r}")
        kind = numpy.dtype(dtype)
        part, count = self._part(at), math.prod(shape)
        if count * kind.itemsize != len(part) or (count and not part):
            raise ValueError(f"an array of {shape} {dtype} in {len(part)} bytes")
        return numpy.ndarray(shape, kind, part if len(part) else None)

    def _table(self, at: int) -> Any:
        pyarrow = _needed("pyarrow")
        if int(pyarrow.__version__.partition(".")[0]) < 15:
            raise ImportError("tables need pyarrow 15 or newer: older ones may run code that is in a table")
        stream = self._part(at)
        self._check_table(stream)
        table = pyarrow.ipc.open_stream(pyarrow.py_buffer(stream)).read_all()
        table.validate(full=True)
        return table

    def _time(self, kind: Any, text: str, zone: Any, fold: int) -> Any:
        return kind.fromisoformat(text).replace(tzinfo=self._zone(zone), fold=fold)

    def _zone(self, zone: Any) -> Any:
        if zone is None:
            return None
        if not isinstance(zone, str):
            return datetime.timezone(datetime.timedelta(seconds=zone))
        return importlib.import_module("zoneinfo").ZoneInfo(_matching(_ZONE, zone))

    def _of_pandas(self, tag: str, content: Any) -> Any:
        pandas = _needed("pandas")
        if tag == "missing":
            return {"NA": pandas.NA, "NaT": pandas.NaT}[content]
        if tag == "Period":
            return pandas.Period(ordinal=content[0], freq=_matching(_FREQUENCY, content[1]))
        number, unit, zone = content
        if tag == "Timedelta":
            return pandas.Timedelta(_needed("numpy").timedelta64(number, _matching(_UNIT, unit)))
        made = pandas.Timestamp(_needed("numpy").datetime64(number, _matching(_UNIT, unit)))
        return made if zone is None else made.tz_localize("UTC").tz_convert(self._zone(zone))

    def _series(self, values: Any, index: Any, name: Any) -> Any:
        rows = self._index(index)
        return self._made(values, rows, self.value(name))

    def _frame(self, columns: list[Any], index: Any, names: Any) -> Any:
        pandas = _needed("pandas")
        rows = self._index(index)
        made = {at: self._made(column, rows) for at, column in enumerate(columns)}
        frame = pandas.DataFrame(made, rows, copy=False)
        frame.columns = self._index(names)
        return frame

    def _made(self, column: list[Any], rows: Any, name: Any = None) -> Any:
        """As long as its frame: pandas would repeat a single value as often as the index says."""
        pandas = _needed("pandas")
        values = self._column(column)
        if len(values) != len(rows):
            raise ValueError(f"a column of another length than {len(rows)}")
        return pandas.Series(values, rows, dtype=getattr(values, "dtype", None), name=name, copy=False)

    def _column(self, column: list[Any]) -> Any:
        """An array of its type."""
        pandas, numpy = _needed("pandas"), _needed("numpy")
        kind, values, *more = column
        if kind == "object":
            made = numpy.empty(len(values), object)
            for at, item in enumerate(values):
                made[at] = self.value(item)
            return made
        if kind == "text":
            is_new = int(pandas.__version__.partition(".")[0]) >= 3
            if more[0] or is_new:
                return pandas.array(values, dtype="string" if more[0] else "str")
            return numpy.array([math.nan if item is None else item for item in values], object)
        if kind == "nullable":
            filled, missing = (numpy.array(self.value(each)) for each in more)
            name = _matching(_NULLABLE, values)
            array = {"b": "BooleanArray", "F": "FloatingArray"}.get(name[0], "IntegerArray")
            return getattr(pandas.arrays, array)(filled, missing)
        array = self.value(values)
        if not isinstance(array, numpy.ndarray) or array.ndim != 1:
            raise ValueError("a column is no array")
        if kind == "category":
            categories = pandas.Index(self._column(more[0]))
            return pandas.Categorical.from_codes(array, categories, ordered=more[1])
        if kind == "zoned":
            zone = more[0] if isinstance(more[0], str) else self._zone(more[0])
            if isinstance(zone, str):
                _matching(_ZONE, zone)
            return pandas.DatetimeIndex(array).tz_localize("UTC").tz_convert(zone).array
        if kind == "period":
            return pandas.arrays.PeriodArray(array, dtype=pandas.PeriodDtype(_matching(_FREQUENCY, more[0])))
        if kind != "numpy":
            raise ValueError(f"no column of {kind!r}")
        return array

    def _index(self, index: list[Any]) -> Any:
        pandas = _needed("pandas")
        kind, values, name, *more = index
        if kind == "range":
            return pandas.RangeIndex(*values, name=self.value(name))
        if kind == "levels":
            levels = [self._column(level) for level in values]
            return pandas.MultiIndex.from_arrays(levels, names=self.value(name))
        array = self._column(values)
        made = pandas.Index(array, dtype=getattr(array, "dtype", None), name=self.value(name), copy=False)
        if more and more[0] is not None and hasattr(made, "freq") and made.dtype.kind in "mM":
            made.freq = _matching(_FREQUENCY, more[0])
        return made


def _matching(pattern: re.Pattern[str], text: Any) -> str:
    if not isinstance(text, str) or not pattern.fullmatch(text):
        raise ValueError(f"{text!r} is none")
    return text


def _needed(name: str) -> Any:
    try:
        return sys.modules.get(name) or importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"the value needs {name}, which is not installed here", name=name) from error
