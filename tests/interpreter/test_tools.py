"""limpet_tools: functions of the host, called from cells."""

import pytest

from .asking import answer_error, answer_value, next_question, questions_of, run_answered

OFFER = [
    {
        "name": "search",
        "signature": "(query: str, *, limit: int = 5, where='all', at=now()) -> list[str]",
        "doc": "Find.",
    },
    {"name": "add", "signature": "(a, b=-1, /, *rest, **more)", "doc": "Add."},
    {"name": "odd", "signature": "(this is none", "doc": "Odd."},
    {"name": "_hidden", "signature": "()", "doc": ""},
]


def run_offered(session, code, *results):
    """Runs a cell with OFFER; the reply, and the calls there were as (name, args, kwargs)."""
    rest = iter(results)
    reply, asked = run_answered(session, code, lambda q: OFFER if q.kind == "tools" else next(rest))
    assert all(q.kind in ("tools", "tool") for q in asked)
    return reply, [(q.name, *q.payload) for q in asked if q.kind == "tool"]


def value_offered(session, code, *results):
    reply, _ = run_offered(session, code, *results)
    assert reply.error is None, reply.error["traceback"]
    return reply.result


def test_a_call(session):
    reply, calls = run_offered(session, "import limpet_tools\nlimpet_tools.search('x', limit=3)", ["a", {"b": None}])
    assert reply.error is None, reply.error["traceback"]
    assert reply.result == "['a', {'b': None}]" and calls == [("search", ["x"], {"limit": 3})]


PLAIN = [None, True, -(2**63), 2**64 - 1, 1.5, "é", b"\x00\xff", [1, [2]], {"k": {"": []}}, "x" * 100000]


def test_values_go_both_ways(session):
    reply, calls = run_offered(session, f"import limpet_tools\nlimpet_tools.add(*{PLAIN!r}, t=(1, 2))", PLAIN)
    assert reply.result == repr(PLAIN)
    assert calls == [("add", PLAIN, {"t": [1, 2]})]
    assert value_offered(session, "x = limpet_tools.add(float('nan'), float('inf'))\nx", -1) == "-1"


def test_functions_are_asked_for_once_in_a_call(session):
    code = "import limpet_tools as t\n[t.search(1), t.add(2), hasattr(t, 'add'), 'add' in dir(t)]"
    reply, asked = run_answered(session, code, lambda q: OFFER if q.kind == "tools" else 0)
    assert [q.kind for q in asked] == ["tools", "tool", "tool"] and asked[0].payload is None
    assert reply.result == "[0, 0, True, True]"
    _, asked = run_answered(session, "t.add", lambda q: OFFER)
    assert [q.kind for q in asked] == ["tools"]


def test_what_a_function_tells_of_itself(session):
    code = "import limpet_tools as t, inspect\n[str(inspect.signature(f)) for f in (t.search, t.add, t.odd)]"
    assert eval(value_offered(session, code)) == [
        "(query: str, *, limit: int = 5, where='all', at=now()) -> list[str]",
        "(a, b=-1, /, *rest, **more)",
        "(*args, **kwargs)",
    ]
    code = "[(f.__name__, f.__module__, f.__doc__) for f in (t.search, t.odd)]"
    assert eval(value_offered(session, code)) == [
        ("search", "limpet_tools", "Find."),
        ("odd", "limpet_tools", "odd(this is none\n\nOdd."),
    ]
    reply, _ = run_offered(session, "help(t.search)")
    assert "search(query: str, *, limit: int = 5" in reply.stdout and "Find." in reply.stdout
    reply, _ = run_offered(session, "help(t)")
    assert reply.error is None and "search(query: str" in reply.stdout


SIGNATURES = {
    "more statements": "(): pass\nimport os\ndef g()",
    "a call as default": "(x=__import__('os').abort())",
    "a call as annotation": "(x: __import__('os').abort())",
    "a decorated class": "()\n@f\nclass A",
    "the same name twice": "(a, a)",
    "parentheses": "(" * 3000,
    "signs": "(a=" + "-" * 3000 + "1)",
    "a long number": "(x=" + "9" * 4000 + ")",
    "too long": "(x" * 5000,
    "nothing": "",
    "NUL": "\0",
    "yield": "() -> (yield)",
    "out of order": "(*, x, *y)",
    "a default too early": "(a=1, b)",
}


@pytest.mark.parametrize("case", SIGNATURES)
def test_a_signature_is_never_run(shared, case):
    offer = [{"name": "f", "signature": SIGNATURES[case], "doc": "d"}]
    code = "import limpet_tools, inspect\nlen(str(inspect.signature(limpet_tools.f))) > 0"
    reply, _ = run_answered(shared, code, lambda q: offer)
    assert reply.error is None, reply.error["traceback"]
    assert reply.result == "True"


def test_unknown_names(session):
    error = run_offered(session, "import limpet_tools as t\nt.serch")[0].error
    assert error["name"] == "AttributeError" and "offers no serch; it offers add, odd, search" in error["message"]
    for code in ("from limpet_tools import serch", "import limpet_tools.serch"):
        error = run_offered(session, code)[0].error
        assert error["name"] == "ImportError" and "it offers add, odd, search" in error["message"]
        assert "limpet_runtime" not in error["traceback"]
    assert value_offered(session, "[hasattr(t, n) for n in ('add', '_hidden', '__path__', '__wrapped__')]") == (
        "[True, False, True, False]"
    )
    assert value_offered(session, "from limpet_tools import search, ToolError\nsearch()", 8) == "8"
    assert value_offered(session, "from limpet_tools import *\nadd()", 9) == "9"


def test_without_tools(session):
    for code in ("limpet_tools.search", "limpet_tools.search('x')"):
        error = session.run("import limpet_tools\n" + code).error
        assert error["name"] == "AttributeError" and "run without tools" in error["message"]
    error = session.run("from limpet_tools import search").error
    assert error["name"] == "ImportError" and "run without tools" in error["message"]
    assert session.value("[dir(limpet_tools), hasattr(limpet_tools, 'search')]") == [["ToolError"], False]
    assert session.run("from limpet_tools import *; help(limpet_tools)").error is None


def test_a_function_that_was_kept(session):
    assert value_offered(session, "from limpet_tools import search\nsearch(1)", 1) == "1"
    assert value_offered(session, "search(2)", 2) == "2"
    error = session.run("search(3)").error
    assert error["name"] == "RuntimeError" and "search() cannot be called" in error["message"]
    restored = session.checkpoint().restore()
    assert value_offered(restored, "import limpet_tools\n[search(4), limpet_tools.search(5)]", 4, 5) == "[4, 5]"


BIG = "put it into a file under /session"
REFUSED = {
    "object()": ("TypeError", "not object"),
    "{1, 2}": ("TypeError", "not set"),
    "[[object]]": ("TypeError", "not type"),
    "1 + 2j": ("TypeError", ".tolist()"),
    "2 ** 64": ("ValueError", "64 bits"),
    "-2 ** 63 - 1": ("ValueError", "64 bits"),
    "{1: 2}": ("ValueError", "key that is not text"),
    "deep": ("ValueError", "nests too deep"),
    "loop": ("ValueError", "nests too deep"),
    "[0] * 200000": ("ValueError", "too many values"),
    "{str(i): i for i in range(20000)}": ("ValueError", "too many keys"),
    "'x' * (1 << 20)": ("ValueError", "over 1 MiB"),
    "b'x' * (64 << 20)": ("ValueError", "over 1 MiB"),
}


@pytest.mark.parametrize("argument", REFUSED)
def test_what_cannot_be_passed(shared, argument):
    run_offered(shared, "from limpet_tools import add\ndeep = []\nfor _ in range(40): deep = [deep]\n"
                        "loop = []\nloop.append(loop)")
    reply, calls = run_offered(shared, f"add({argument})")
    name, text = REFUSED[argument]
    assert (reply.error["name"], calls) == (name, [])
    assert text in reply.error["message"] and BIG in reply.error["message"]
    assert value_offered(shared, "add(1)", 1) == "1"


def test_numpy_is_no_plain_data(session):
    if session.run("import numpy as np").error:
        pytest.skip("the interpreter has no NumPy")
    run_offered(session, "from limpet_tools import add")
    for argument in ("np.zeros(3)", "np.int64(1)"):
        error = run_offered(session, f"add({argument})")[0].error
        assert error["name"] == "TypeError" and ".tolist()" in error["message"], argument


def test_as_deep_and_as_many_as_a_message_holds(session):
    code = "from limpet_tools import add\nx = []\nfor _ in range(29): x = [x]\nadd(x)"
    reply, calls = run_offered(session, code, 0)
    assert reply.error is None
    reply, calls = run_offered(session, "add([{str(k): k for k in range(20)} for i in range(4000)])", 0)
    assert reply.error is None and len(calls[0][1][0]) == 4000


def test_what_a_function_raises(session):
    code = """
from limpet_tools import add, ToolError
seen = []
for _ in range(7):
    try: add()
    except Exception as e: seen.append((type(e).__name__, str(e)))
seen
"""
    errors = [("ValueError", "v"), ("KeyError", "k"), ("PermissionError", "p"), ("UnicodeDecodeError", "u"),
              ("KeyboardInterrupt", "i"), ("requests.HTTPError", "h"), ("print", "é")]  # fmt: skip
    session.start(code, asks=True)
    answer_value(session, next_question(session), OFFER)
    for error in errors:
        answer_error(session, next_question(session), *error)
    assert eval(session.finish().result) == [
        ("ValueError", "v"), ("KeyError", "'k'"), ("PermissionError", "p"), ("ToolError", "UnicodeDecodeError: u"),
        ("ToolError", "KeyboardInterrupt: i"), ("ToolError", "requests.HTTPError: h"), ("ToolError", "print: é"),
    ]  # fmt: skip
    session.start("add()", asks=True)
    answer_error(session, next_question(session), "HTTPError", "404")
    error = session.finish().error
    assert (error["name"], error["message"]) == ("ToolError", "HTTPError: 404")
    assert error["traceback"].count("File ") == 1
    code = "import pickle\ne = pickle.loads(pickle.dumps(ToolError('a', 'b')))\n[e.name, e.message, str(e)]"
    assert session.value(code) == ["a", "b", "a: b"]


UNSOUND = {
    "empty": b"",
    "two values": b"\xc0\xc0",
    "cut": b"\xd9\x10abc",
    "claims much": b"\xdd\xff\xff\xff\xff",
    "ext": b"\xd4\x01\x00",
    "not UTF-8": b"\xa2\xff\xff",
    "twice the key": b"\x82\xa1a\x01\xa1a\x02",
    "key of a number": b"\x81\x01\x02",
    "too deep": b"\x91" * 40 + b"\xc0",
    "too many": b"\xdd\x00\x04\x00\x00" + b"\xc0" * (4 << 16),
}


@pytest.mark.parametrize("case", UNSOUND)
def test_an_unsound_answer_is_an_error(shared, case):
    shared.start("import limpet_tools\nlimpet_tools.add()", asks=True)
    for question in questions_of(shared):
        if question.kind == "tools":
            answer_value(shared, question, OFFER)
        else:
            shared.channel.send(44, question.id, {"ask": question.number, "payload": UNSOUND[case]})
    error = shared.finish().error
    assert error["name"] == "ValueError" and "answer" in error["message"]


@pytest.mark.parametrize("offer", [None, 7, {}, [1], [{"name": "x"}], [{"name": 1, "signature": "", "doc": ""}]])
def test_an_unsound_offer_is_an_error(shared, offer):
    reply, _ = run_answered(shared, "import limpet_tools\nlimpet_tools.add", lambda q: offer)
    assert reply.error["name"] == "RuntimeError"
    assert run_answered(shared, "dir(limpet_tools)", lambda q: [])[0].result == "['ToolError']"


def test_a_process_of_its_own_has_no_tools(session):
    code = """
import subprocess, sys
run = subprocess.run([sys.executable, '-c', f'import sys; sys.path += {sys.path!r}; import limpet_tools'],
                     capture_output=True, text=True)
run.stderr.splitlines()[-1]
"""
    assert "only the session's own process" in session.run(code).result


def test_threads_call_side_by_side(session):
    code = """
from concurrent.futures import ThreadPoolExecutor
from limpet_tools import add
with ThreadPoolExecutor(8) as pool: results = list(pool.map(add, range(200)))
results == [i * 2 for i in range(200)]
"""
    reply, asked = run_answered(session, code, lambda q: OFFER if q.kind == "tools" else q.payload[0][0] * 2)
    assert reply.result == "True" and len(asked) == 201


def test_nothing_shows_in_the_namespace(session):
    reply, _ = run_offered(session, "import limpet_tools\n_ = limpet_tools.add()", None)
    assert [v["name"] for v in reply.body["changed"]["added"]] == ["limpet_tools"]
