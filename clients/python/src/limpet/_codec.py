"""Values as bytes, and back. The sandbox gets this text too, so it takes nothing from the package.

What is read may be hostile: nothing in it names code, and every size is compared with what is there. It is a header in
JSON, in which an object ``{"tuple": ...}`` stands for what JSON has not, and behind it the bytes of arrays and tables.
"""

from __future__ import annotations

import importlib
import json
import math
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

MAGIC = b"limpet1\n"
ALIGNMENT = 64
HEADER = 64 << 20  # bytes at most
_DTYPE = re.compile(r"[<>|=]([biufcSU]\d{1,9}|[Mm]8(\[\d{0,9}[A-Za-z]{1,7}\])?)")
_KINDS = (
    "None, bool, int, float, complex, str, bytes, list, tuple, set, dict, NumPy arrays, Arrow tables and pandas frames "
    "of them"
)

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

    def _pandas(self, value: Any) -> Any:
        import pandas

        if isinstance(value, pandas.Series):
            return {"series": [self._column(value), self._index(value.index), self.node(value.name)]}
        if not isinstance(value, pandas.DataFrame):
            return None
        columns = [self._column(value.iloc[:, at]) for at in range(value.shape[1])]
        return {"frame": [columns, self._index(value.index), self.node(list(value.columns))]}

    def _column(self, column: Any) -> Any:
        """Of a frame: an array where it is one, otherwise its values one by one."""
        return self.node(
            column.to_numpy() if _DTYPE.fullmatch(getattr(column.dtype, "str", "")) else column.tolist()
        )

    def _index(self, index: Any) -> Any:
        if type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1):
            return [len(index), None]
        return [self._column(index), self.node(index.name)]


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
        readers: dict[str, Callable[[Any], Any]] = {
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

    def _series(self, values: Any, index: Any, name: Any) -> Any:
        pandas = _needed("pandas")
        rows = self._index(index)
        return pandas.Series(self._column(values, len(rows)), rows, name=self.value(name))

    def _frame(self, columns: list[Any], index: Any, names: Any) -> Any:
        pandas = _needed("pandas")
        rows = self._index(index)
        values = [self._column(column, len(rows)) for column in columns]
        frame = pandas.DataFrame(dict(enumerate(values)), rows, copy=False)
        frame.columns = pandas.Index(self.value(names))  # tuples make it a MultiIndex
        return frame

    def _column(self, column: Any, size: int) -> Any:
        """As long as its frame: pandas would repeat a single value as often as the index says."""
        values = self.value(column)
        if isinstance(values, str) or len(values) != size:
            raise ValueError(f"a column of another length than {size}")
        return values

    def _index(self, index: list[Any]) -> Any:
        pandas = _needed("pandas")
        values, name = index
        if isinstance(values, int):
            return pandas.RangeIndex(values)
        return pandas.Index(self.value(values), name=self.value(name))


def _needed(name: str) -> Any:
    try:
        return sys.modules.get(name) or importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"the value needs {name}, which is not installed here", name=name) from error
