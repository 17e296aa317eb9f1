"""The namespace, told without running code of the cells."""

import os
import signal

import pytest

from .listing import FIELDS, interpreter_with, namespace, variables

LIMIT_NAMESPACE = 1000
LIMIT_NOTE = 256


def variable(session, code):
    """What is told of the value of an expression."""
    reply = session.run(f"probe = {code}")
    assert reply.error is None, reply.error["traceback"]
    told = variables(session)["probe"]
    return tuple(told[field] for field in FIELDS[1:])


def only_type(name):
    return (name, None, None, None, None)


# Names


def test_names_come_in_the_order_they_were_bound(session):
    assert namespace(session) == {"names": [], "more": 0}
    session.run("c = a = 1\nimport os\ndef b(): pass\n_hidden = __hidden = 2\nc = 3")
    assert [(v["name"], v["type"]) for v in namespace(session)["names"]] == [
        ("c", "int"),
        ("a", "int"),
        ("os", "module"),
        ("b", "function"),
    ]


def test_more_than_are_listed(session):
    session.run("for i in range(1500): globals()[f'n{i}'] = i\ndel i")
    body = namespace(session)
    assert [v["name"] for v in body["names"]] == [f"n{i}" for i in range(LIMIT_NAMESPACE)]
    assert body["more"] == 500


def test_names_are_valid_and_short(session):
    session.run(
        "g = globals()\ng[''] = 1\ng['a b'] = 2\ng['x' * 300] = 3\n"
        "g['\\u20ac' * 100] = 4\ng['\\ud800'] = 5\ng['é'] = 6"
    )
    names = [v["name"] for v in namespace(session)["names"]]
    assert names == ["g", "", "a b", "x" * 253 + "…", "€" * 84 + "…", "\\ud800", "é"]
    assert all(len(name.encode()) <= LIMIT_NOTE for name in names)


# Built-in types


@pytest.mark.parametrize(
    "code, told",
    [
        ("None", ("NoneType", None, None, None, "None")),
        ("True", ("bool", None, None, None, "True")),
        ("-5", ("int", None, None, None, "-5")),
        ("-(2**63)", ("int", None, None, None, "-9223372036854775808")),
        ("2**63", only_type("int")),
        ("0.1", ("float", None, None, None, "0.1")),
        ("float('nan')", ("float", None, None, None, "nan")),
        ("1 - 2j", ("complex", None, None, None, "(1-2j)")),
        ("'it\\'s\\n'", ("str", [5], None, 5, '"it\'s\\n"')),
        ("'h\\xe9'", ("str", [2], None, 2, "'hé'")),
        ("'\\u20ac'", ("str", [1], None, 2, "'€'")),
        ("'\\U0001f41a'", ("str", [1], None, 4, "'🐚'")),
        ("'\\ud800'", ("str", [1], None, 2, "'\\ud800'")),
        ("'x' * 254", ("str", [254], None, 254, "'" + "x" * 254 + "'")),
        ("'x' * 255", ("str", [255], None, 255, None)),
        ("'\\u20ac' * 200", ("str", [200], None, 400, None)),
        ("'x' * 10**7", ("str", [10**7], None, 10**7, None)),
        ("b'a\\0'", ("bytes", [2], None, 2, "b'a\\x00'")),
        ("bytes(1000)", ("bytes", [1000], None, 1000, None)),
        ("bytearray(b'abc')", ("bytearray", [3], None, 3, None)),
        ("[1, 2]", ("list", [2], None, None, None)),
        ("(1, 2, 3)", ("tuple", [3], None, None, None)),
        ("{1: 2}", ("dict", [1], None, None, None)),
        ("{1, 2}", ("set", [2], None, None, None)),
        ("frozenset('abc')", ("frozenset", [3], None, None, None)),
        ("range(3)", only_type("range")),
        ("...", only_type("ellipsis")),
        ("int", only_type("type")),
        ("len", only_type("builtin_function_or_method")),
        ("ValueError('x')", only_type("ValueError")),
        ("__import__('datetime').date(2020, 1, 1)", only_type("datetime.date")),
        ("__import__('collections').OrderedDict(a=1)", only_type("collections.OrderedDict")),
        ("__import__('re').compile('x')", only_type("re.Pattern")),
        ("__import__('decimal').Decimal(1)", only_type("decimal.Decimal")),
        ("__import__('pathlib').PurePosixPath('x')", None),
    ],
)
def test_builtin(shared, code, told):
    answer = variable(shared, code)
    assert answer == told if told else answer[0].startswith("pathlib.") and answer[1:] == (None,) * 4


def test_types_of_the_cell(shared):
    shared.run("class Outer:\n    class Inner: pass\ndef f():\n    class Local: pass\n    return Local()")
    assert variable(shared, "Outer.Inner()") == only_type("__main__.Outer.Inner")
    assert variable(shared, "f()") == only_type("__main__.f.<locals>.Local")
    assert variable(shared, "type('N' * 300, (), {})()")[0] == "__main__." + "N" * 244 + "…"
    shared.run("Outer.__qualname__, Outer.__module__ = '\\ud800', 'm\\xe9'")
    assert variable(shared, "Outer()") == only_type("mé.\\ud800")


@pytest.mark.parametrize("base", ["int", "str", "list", "dict", "float", "bytes", "tuple", "set"])
def test_of_a_subclass_only_the_type_is_told(shared, base):
    shared.run(f"class Mine({base}): pass")
    assert variable(shared, "Mine()") == only_type("__main__.Mine")


# Nothing of the cell runs

HOSTILE = """
ran = []
class Meta(type):
    def __getattribute__(cls, name): ran.append(('meta', name)); return type.__getattribute__(cls, name)
    def __repr__(cls): ran.append('meta repr'); return 'x'
    def __instancecheck__(cls, value): ran.append('check'); return True
    @property
    def __module__(cls): ran.append('meta module'); return 'm'
    @property
    def __name__(cls): ran.append('meta name'); return 'n'
class Evil(metaclass=Meta):
    def __getattribute__(self, name): ran.append(name); raise SystemExit
    def __len__(self): ran.append('len'); return -1
    def __iter__(self): ran.append('iter'); raise SystemExit
    def __repr__(self): ran.append('repr'); raise SystemExit
    def __hash__(self): ran.append('hash'); raise SystemExit
    def __eq__(self, other): ran.append('eq'); raise SystemExit
    @property
    def __class__(self): ran.append('class'); raise SystemExit
    @property
    def shape(self): ran.append('shape'); raise SystemExit
    dtype = nbytes = __array_interface__ = __array_struct__ = shape
    def __index__(self): ran.append('index'); return 1
    __int__ = __float__ = __buffer__ = __index__
class Text(str, metaclass=Meta):
    def __repr__(self): ran.append('text repr'); return 'x'
    def __len__(self): ran.append('text len'); return 1
    def encode(self, *a): ran.append('encode'); return b''
    def __eq__(self, other): ran.append('text eq'); return str.__eq__(self, other)
    def __hash__(self): ran.append('text hash'); return str.__hash__(self)
evil = Evil()
text = Text('abc')
class Impostor:
    pass
Impostor.__module__ = Evil()
impostor = Impostor()
class Named: pass
Named.__module__ = Text('numpy')
Named.__qualname__ = Text('ndarray')
named = Named()
del ran[:]
"""


def test_hostile_objects_run_nothing(session):
    assert session.run(HOSTILE).error is None
    told = variables(session)
    assert told["evil"]["type"] == "__main__.Evil"
    assert told["text"]["type"] == "__main__.Text"
    assert told["impostor"]["type"] == "?.Impostor"
    assert told["named"]["type"] == "?.ndarray"
    for name in "evil", "text", "impostor", "named":
        assert [told[name][field] for field in FIELDS[2:]] == [None] * 4
    assert session.value("ran") == []


def test_no_python_runs_at_all(session):
    """A function that profiles the thread would be told of it."""
    session.run(HOSTILE + "import sys\nl, d, s = [1], {}, 'x'")
    profile = "del ran[:]\ncalls = []\nsys.setprofile(lambda frame, event, arg: calls.append(event))"
    counts = []
    for asked in False, True:
        session.run(profile)
        if asked:
            assert len(variables(session)) > 10
        counts.append(session.value("(len(calls), ran)"))
        session.run("sys.setprofile(None)")
    assert counts[0] == counts[1] and counts[0][0] > 0


ODD_KEYS = """
ran = []
class Key(str):
    def __hash__(self): return str.__hash__(self)
    def __eq__(self, other): ran.append(str(other)); return str.__eq__(self, other)
class Other:
    def __init__(self, name): self.hash = hash(name)
    def __hash__(self): return self.hash
    def __eq__(self, other): ran.append(str(other)); return False
g = globals()
g[Key('keyed')] = 1
g[5] = g[None] = g[(1, 2)] = 2
g[Other('x')] = 3
crowd = type('Crowd', (), {Other('__module__'): 1, '__module__': 'crowded'})()
"""


def test_keys_that_are_no_plain_text(session):
    assert session.run(ODD_KEYS).error is None
    assert set(session.value("del ran[:]\nx = 1\nran")) == {"x"}
    session.run("del ran[:]")
    told = variables(session)
    assert list(told) == ["ran", "Key", "Other", "g", "crowd", "x"]
    assert told["crowd"]["type"] == "crowded.Crowd"
    assert session.value("ran") == []


def test_a_pending_signal_runs_no_handler(session):
    """Many functions of Python would run it, and fail."""
    session.run("import signal\nsignal.signal(signal.SIGUSR1, lambda *event: 1 / 0)")
    session.run("i, f, c, s, b, l = 5, 0.5, 2j, 'x', b'y', [1]")
    os.kill(session.process.pid, signal.SIGUSR1)
    told = variables(session)
    assert [told[name]["repr"] for name in "ifcsbl"] == ["5", "0.5", "2j", "'x'", "b'y'", None]


def test_no_value_is_kept(session):
    session.run("import weakref\nclass C: pass\nc = C()\nw = weakref.ref(c)")
    assert "c" in variables(session)
    assert session.run("del c\nw() is None").result == "True"


def test_the_namespace_after_damage(session):
    for damage in "globals()", "__import__('sys').modules", "vars(__import__('builtins'))":
        session.run(f"{damage}.clear()")
        assert isinstance(namespace(session)["names"], list)
    session.run("z = 1")
    assert variables(session)["z"]["type"] == "int"


def test_a_restored_interpreter_has_the_names_of_its_checkpoint(session):
    session.run("x = 1")
    frozen = session.checkpoint()
    session.run("x = [1, 2]\ny = 3")
    assert {n: v["type"] for n, v in variables(session).items()} == {"x": "list", "y": "int"}
    restored = frozen.restore()
    assert {n: v["type"] for n, v in variables(restored).items()} == {"x": "int"}


# Libraries


@pytest.fixture(scope="module")
def numpy():
    with interpreter_with("numpy", "np") as interpreter:
        yield interpreter


@pytest.mark.parametrize(
    "code, shape, dtype, size",
    [
        ("np.zeros((3, 4))", [3, 4], "float64", 96),
        ("np.array(5, dtype='i2')", [], "int16", 2),
        ("np.zeros((0, 2), dtype='u1')", [0, 2], "uint8", 0),
        ("np.zeros(3, dtype='>f4')", [3], ">f4", 12),
        ("np.zeros(2, dtype=bool)", [2], "bool", 2),
        ("np.zeros(2, dtype='c16')", [2], "complex128", 32),
        ("np.array(['abc'])", [1], "<U3", 12),
        ("np.array([b'abc'])", [1], "|S3", 3),
        ("np.array(['2020-01-01'], dtype='M8[D]')", [1], "datetime64[D]", 8),
        ("np.zeros(1, dtype='m8[25us]')", [1], "timedelta64[25us]", 8),
        ("np.zeros(1, dtype='M8')", [1], "datetime64", 8),
        ("np.array([None, 1])", [2], "object", 16),
        ("np.zeros(2, dtype=[('a', 'i4'), ('b', 'f8')])", [2], "|V12", 24),
        ("np.zeros((1,) * 32)", [1] * 32, "float64", 8),
        ("np.zeros((10, 10))[::2, 1]", [5], "float64", 40),
    ],
)
def test_arrays(numpy, code, shape, dtype, size):
    assert variable(numpy, code) == ("numpy.ndarray", shape, dtype, size, None)
    if "[(" not in code:
        assert numpy.value("str(probe.dtype)") == dtype
    assert numpy.value("(list(probe.shape), probe.nbytes)") == (shape, size)


def test_of_subclasses_of_arrays_only_the_type_is_told(numpy):
    numpy.run("class A(np.ndarray):\n    shape = dtype = nbytes = property(lambda self: 1 / 0)")
    assert variable(numpy, "np.zeros(3).view(A)") == only_type("__main__.A")
    assert variable(numpy, "np.ma.zeros(3)")[1:] == (None,) * 4
    assert variable(numpy, "np.float64(1)") == only_type("numpy.float64")


def test_modules_in_the_place_of_numpy_change_nothing(numpy):
    numpy.run("import sys, types\nkept = sys.modules['numpy']")
    numpy.run("sys.modules['numpy'] = types.ModuleType('numpy')")
    assert variable(numpy, "np.zeros(2)") == ("numpy.ndarray", [2], "float64", 16, None)
    numpy.run("sys.modules['numpy'] = kept")


@pytest.fixture(scope="module")
def pandas():
    with interpreter_with("pandas", "pd") as interpreter:
        interpreter.run("import numpy as np")
        yield interpreter


FRAMES = [
    "pd.DataFrame({'a': [1, 2], 'b': [1.5, 2.5]})",
    "pd.DataFrame({'a': [1, 2, 3], 'b': list('xyz'), 'c': pd.to_datetime(['2020-01-01'] * 3)})",
    "pd.DataFrame({'a': pd.array([1, None], dtype='Int64'), 'b': pd.Categorical(['u', 'v'])})",
    "pd.DataFrame({'s': pd.array(['x', 'y'], dtype='string')}, index=['p', 'q'])",
    "pd.DataFrame({'t': pd.to_datetime(['2020-01-01'] * 4).tz_localize('UTC')})",
    "pd.DataFrame()",
    "pd.DataFrame(index=range(0, 10, 3))",
    "pd.DataFrame(columns=['a', 'b'])",
    "pd.DataFrame(np.zeros((5, 3)), index=pd.date_range('2020-01-01', periods=5))",
    "pd.DataFrame(np.zeros((4, 2)), index=pd.MultiIndex.from_product([[1, 2], [3, 4]]))",
    "pd.DataFrame(np.zeros((4, 2)), columns=pd.MultiIndex.from_tuples([(1, 2), (3, 4)]))",
    "pd.DataFrame(np.zeros((9, 2)))[2:7:2]",
    "pd.DataFrame({'a': [1, 1], 'b': [2, 3]}).set_index('a')",
]


@pytest.mark.parametrize("code", FRAMES)
def test_frames(pandas, code):
    name, shape, dtype, size, text = variable(pandas, code)
    assert name in ("pandas.core.frame.DataFrame", "pandas.DataFrame")
    assert (tuple(shape), dtype, text) == (pandas.value("probe.shape"), None, None)
    assert size in (None, pandas.value("int(probe.memory_usage(index=False).sum())"))


SERIES = [
    ("pd.Series([1, 2, 3])", "int64"),
    ("pd.Series([1.5], index=['x'])", "float64"),
    ("pd.Series([None, 'x'], dtype=object)", "object"),
    ("pd.Series(pd.Categorical(['u', 'v']))", "category"),
    ("pd.Series([], dtype='f4')", "float32"),
    ("pd.Series(np.array(['2020-01-01'], dtype='M8[ns]'))", "datetime64[ns]"),
    ("pd.Series(np.array([5], dtype='m8[s]'))", "timedelta64[s]"),
    ("pd.Series(pd.array([1, 2, None], dtype='Int64'))", None),
    ("pd.Series(['x', 'y'], dtype='string')", None),
    ("pd.Series(pd.to_datetime(['2020-01-01']).tz_localize('UTC'))", None),
    ("pd.DataFrame({'a': [1, 2]})['a']", "int64"),
]


@pytest.mark.parametrize("code, expected", SERIES)
def test_series(pandas, code, expected):
    name, shape, dtype, size, text = variable(pandas, code)
    assert name in ("pandas.core.series.Series", "pandas.Series")
    assert (tuple(shape), dtype, text) == (pandas.value("probe.shape"), expected, None)
    assert expected in (None, pandas.value("str(probe.dtype)"))
    assert size in (None, pandas.value("int(probe.memory_usage(index=False))"))


def test_known_bytes_of_frames(pandas):
    assert variable(pandas, "pd.DataFrame(np.zeros((5, 3)))")[3] == 120
    assert variable(pandas, "pd.Series([1, 2])")[3] == 16


def test_what_cells_do_to_pandas_does_not_run(pandas):
    pandas.run(
        "ran = []\n"
        "class Sub(pd.DataFrame): pass\n"
        "def hook(self, *a): ran.append(1); raise SystemExit\n"
        "originals = pd.DataFrame.shape, pd.Index.__len__\n"
        "frame = pd.DataFrame({'a': [1, 2]})\n"
        "pd.DataFrame.shape = pd.DataFrame._mgr = pd.DataFrame.__len__ = property(hook)\n"
        "pd.Index.__len__ = hook\n"
    )
    told = variables(pandas)["frame"]
    assert told["shape"] == [2, 1]
    assert variable(pandas, "Sub.__new__(Sub)") == only_type("__main__.Sub")
    pandas.run("pd.DataFrame.shape, pd.Index.__len__ = originals")
    pandas.run("del pd.DataFrame._mgr, pd.DataFrame.__len__")
    assert pandas.value("ran") == []


def test_a_class_that_calls_itself_a_frame(shared):
    shared.run(
        "ran = []\n"
        "class DataFrame:\n"
        "    __module__ = 'pandas.core.frame'\n"
        "    def __getattribute__(self, name): ran.append(name); raise SystemExit\n"
        "class Tuple(tuple):\n"
        "    def __iter__(self): ran.append('iter'); raise SystemExit\n"
        "    __len__ = __getitem__ = __iter__\n"
        "class Manager: pass\n"
        "manager, frame = Manager(), DataFrame()\n"
        "fields = object.__getattribute__(frame, '__dict__')\n"
    )
    for manager in "5", "int", "frame", "manager":
        shared.run(f"fields['_mgr'] = {manager}")
        assert variables(shared)["frame"]["shape"] is None
    for blocks in "5", "Tuple((1, 2))", "(1, 2)", "(int, frame, None)", "(manager,)":
        shared.run(f"manager.blocks = {blocks}\nmanager.axes = [int, frame]")
        assert variables(shared)["frame"]["shape"] is None
    shared.run("manager.axes = [manager, manager]\nmanager._range = range(10**30)")
    assert variables(shared)["frame"]["shape"] is None
    assert shared.value("ran") == []


@pytest.fixture(scope="module")
def polars():
    with interpreter_with("polars", "pl") as interpreter:
        yield interpreter


def test_polars(polars):
    assert variable(polars, "pl.DataFrame({'a': [1, 2, 3], 'b': [1.0, 2.0, 3.0]})") == (
        "polars.dataframe.frame.DataFrame", [3, 2], None, 48, None
    )  # fmt: skip
    assert variable(polars, "pl.DataFrame()")[1:4] == ([0, 0], None, 0)
    assert variable(polars, "pl.Series([1, 2])") == ("polars.series.series.Series", [2], None, 16, None)
    polars.run("lazy = pl.DataFrame({'a': [1]}).lazy()")
    assert variables(polars)["lazy"]["shape"] is None
    polars.run("ran = []\npl.DataFrame.height = pl.DataFrame._df = property(lambda self: ran.append(1))")
    assert variable(polars, "pl.Series([1])")[1] == [1]
    assert polars.value("ran") == []
