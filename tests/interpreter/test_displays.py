"""Rich values: display(), _repr_*_ methods, figures, and what IPython shows."""

import base64

import pytest
from tests.support.drawing import MAKE

from .harness import Interpreter

PNG = b"\x89PNG\r\n\x1a\nrest"


def displays(session, code):
    reply = session.run(code)
    assert reply.error is None, reply.error["traceback"]
    return reply.displays


def test_fields(session):
    (one,) = displays(session, "display(1)")
    assert one == {
        "data": {"text/plain": "1"},
        "metadata": {},
        "display_id": None,
        "is_result": False,
        "update": False,
    }


def test_several_values_and_none(session):
    assert [d["data"]["text/plain"] for d in displays(session, "display(1, 'a', None)")] == [
        "1",
        "'a'",
        "None",
    ]
    assert displays(session, "display()") == []


def test_sent_at_once(session):
    session.start("import time\ndisplay('now')\ntime.sleep(60)")
    assert session.wait(41)[3]["data"]["text/plain"] == "'now'"
    session.interrupt_wait()
    assert session.finish().error["name"] == "KeyboardInterrupt"


RICH = f"""
class Rich:
    def __repr__(self): return 'plain'
    def _repr_html_(self): return '<b>h</b>'
    def _repr_markdown_(self): return '**m**'
    def _repr_png_(self): return {PNG!r}
    def _repr_jpeg_(self): return {base64.b64encode(PNG).decode()!r}
    def _repr_svg_(self): return '<svg/>'
    def _repr_latex_(self): return None
    def _repr_json_(self): return {{'a': [1, 2.5, None, True]}}, {{'expanded': True}}
    def _repr_javascript_(self): raise ValueError('skip me')
    def _repr_pdf_(self): return b'%PDF'
"""

FORMS = {
    "text/plain": "plain",
    "text/html": "<b>h</b>",
    "text/markdown": "**m**",
    "image/png": PNG,
    "image/jpeg": PNG,
    "image/svg+xml": "<svg/>",
    "application/json": {"a": [1, 2.5, None, True]},
    "application/pdf": b"%PDF",
}


def test_all_forms(session):
    (one,) = displays(session, RICH + "display(Rich())")
    assert one["data"] == FORMS
    assert one["metadata"] == {"application/json": {"expanded": True}}


def test_result_with_richer_forms(session):
    reply = session.run(RICH + "Rich()")
    assert reply.result == "plain"
    (one,) = reply.displays
    assert one["data"] == FORMS and one["is_result"] is True


@pytest.mark.parametrize(
    "code", ["1", "'a'", "[1]", "object()", "print", "Exception('a')", "str", "...", "range(3)"]
)
def test_result_with_text_only(session, code):
    reply = session.run(code)
    assert reply.result is not None and reply.displays == []


def test_include_and_exclude(session):
    session.run(RICH)
    (one,) = displays(session, "display(Rich(), include=['text/html'])")
    assert set(one["data"]) == {"text/html"}
    (one,) = displays(session, "display(Rich(), exclude=['text/html', 'image/png'])")
    assert set(one["data"]) == set(FORMS) - {"text/html", "image/png"}


def test_mimebundle(session):
    code = (
        "class B:\n"
        "    def _repr_html_(self): return 'single'\n"
        "    def _repr_mimebundle_(self, include=None, exclude=None):\n"
        "        return {'text/html': 'bundle', 'x/y': [1]}, {'x/y': {'k': 1}}\n"
        "display(B())"
    )
    (one,) = displays(session, code)
    assert (
        one["data"]["text/html"] == "bundle"
        and one["data"]["x/y"] == [1]
        and one["metadata"] == {"x/y": {"k": 1}}
    )


@pytest.mark.parametrize("body", ["raise ValueError", "return 5", "return (1, 2, 3)", "return None"])
def test_a_failing_mimebundle_is_skipped(session, body):
    code = (
        f"class B:\n"
        f"    def __repr__(self): return 'B'\n"
        f"    def _repr_mimebundle_(self, **kwargs):\n"
        f"        {body}\n"
        f"B()"
    )
    reply = session.run(code)
    assert (reply.result, reply.error, reply.displays) == ("B", None, [])


def test_objects_with_every_attribute_are_text(session):
    reply = session.run("from unittest.mock import MagicMock\nMagicMock()")
    assert reply.error is None and reply.displays == []


def test_classes_with_repr_methods_are_text(session):
    assert session.run(RICH + "Rich").displays == []


def test_an_attribute_that_raises_is_skipped(session):
    code = (
        "class A:\n"
        "    def __getattr__(self, n): raise RuntimeError(n)\n"
        "    def __repr__(self): return 'A'\n"
        "A()"
    )
    reply = session.run(code)
    assert (reply.result, reply.error, reply.displays) == ("A", None, [])


def test_repr_that_raises(session):
    (one,) = displays(session, "class A:\n    def __repr__(self): 1/0\ndisplay(A())")
    assert one["data"]["text/plain"] == "<A object; repr() raised ZeroDivisionError: division by zero>"


def test_interrupt_in_a_repr_method(session):
    session.run(
        "class A:\n    def _repr_html_(self):\n        print('in', flush=True)\n        while True: pass"
    )
    session.start("A()")
    session.wait_output("in")
    session.interrupt()
    assert session.finish().error["name"] == "KeyboardInterrupt"


def test_display_id_and_update(session):
    code = (
        "h = display('a', display_id='one')\n"
        "h.update('b')\n"
        "update_display('c', display_id='one')\n"
        "h.display_id"
    )
    reply = session.run(code)
    assert reply.result == "'one'"
    assert [(d["data"]["text/plain"], d["display_id"], d["update"]) for d in reply.displays] == [
        ("'a'", "one", False),
        ("'b'", "one", True),
        ("'c'", "one", True),
    ]
    assert len(displays(session, "display(1, display_id=True);")[0]["display_id"]) == 32


def test_raw_metadata_transient_and_clear(session):
    cleared, one = displays(
        session,
        "display({'a/b': 1}, raw=True, metadata={'m': 2}, transient={'display_id': 'x'}, clear=True);",
    )
    assert (cleared["update"], cleared["metadata"]) == (True, {"wait": True})
    assert (one["data"], one["metadata"], one["display_id"]) == ({"a/b": 1}, {"m": 2}, "x")
    reply = session.run("clear_output(wait=True); display(3, clear=True); clear_output()")
    assert [(d["data"], d["metadata"], d["display_id"], d["update"]) for d in reply.displays] == [
        ({}, {"wait": True}, None, True),
        ({}, {"wait": True}, None, True),
        ({"text/plain": "3"}, {}, None, False),
        ({}, {"wait": False}, None, True),
    ]
    assert session.run("display(1, update=True)").error["name"] == "TypeError"


VALUES = [
    (
        "{'a': {'b': [1, -1, 2**63, 1.5, True, None, 'é', b'raw', bytearray(b'x'), (1,)]}}",
        {"a": {"b": [1, -1, 2**63, 1.5, True, None, "é", b"raw", b"x", [1]]}},
    ),
    ("__import__('enum').IntEnum('E', 'A').A", 1),
    ("'a\\udc80'", "a\\udc80"),
    ("{1: 2}", "[left out: it has a key that is not text]"),
    ("{'\\udc80': 2}", "[left out: it has a key that is not text]"),
    ("[object()]", "[left out: it holds values that are not plain data]"),
    ("2**64", "[left out: it holds an integer of more than 64 bits]"),
    ("[0] * 10**6", "[left out: it has too many values]"),
    ("{str(i): i for i in range(10_000)}", "[left out: it has too many keys]"),
    ("deep", "[left out: it nests too deep]"),
    ("cycle", "[left out: it nests too deep]"),
]


@pytest.mark.parametrize("value, expected", VALUES)
def test_values(session, value, expected):
    session.run("deep = 1\nfor _ in range(100): deep = [deep]\ncycle = []\ncycle.append(cycle)")
    (one,) = displays(session, f"display({{'application/json': {value}, 'text/plain': 't'}}, raw=True)")
    assert one["data"] == {"application/json": expected, "text/plain": "t"}


def test_no_user_code_runs_in_conversion(session):
    code = (
        "class S(str):\n"
        "    def encode(self, *a): 1/0\n"
        "    def __str__(self): 1/0\n"
        "class I(int):\n"
        "    def __index__(self): 1/0\n"
        "    __int__ = __index__\n"
        "display({'a/b': [S('s'), I(5)]}, raw=True)"
    )
    assert displays(session, code)[0]["data"] == {"a/b": ["s", 5]}


def test_wrong_bundles_are_errors_of_the_caller(session):
    assert session.run("display(5, raw=True)").error["name"] == "TypeError"
    assert (
        session.run("import _limpet\n_limpet.send_display({1: 2}, {}, None, 0, 0)").error["name"]
        == "ValueError"
    )
    assert session.run("_limpet.send_display(1, 2, 3, 4, 5)").error["name"] == "TypeError"


def test_bytes_of_a_display_are_limited(session):
    """One by itself here; how many there may be of them the supervisor knows, which sees what takes their place."""
    reply = session.run("for n in (7, 7, 7, 17): display({'image/png': b'x' * n * 1_000_000}, raw=True)")
    assert [len(d["data"].get("image/png", b"")) for d in reply.displays] == [7_000_000] * 3 + [0]
    assert reply.displays[3]["data"]["text/plain"].startswith("[display left out: its 170000")


def test_a_display_larger_than_a_frame(session):
    (one,) = displays(session, "display({'image/png': b'x' * 40_000_000}, raw=True)")
    assert "left out" in one["data"]["text/plain"]


def test_every_display_is_sent(session):
    assert len(displays(session, "for i in range(1000): display(i)")) == 1000
    shown = displays(session, "h = display(0, display_id=True)\nfor i in range(1000): h.update(i)")
    assert shown[-1]["data"] == {"text/plain": "999"}


def test_display_from_threads_of_the_cell(session):
    code = (
        "import threading\n"
        "def many():\n    for _ in range(20): display('x' * 10_000)\n"
        "ts = [threading.Thread(target=many) for _ in range(4)]\n"
        "for t in ts: t.start()\n"
        "for t in ts: t.join()"
    )
    assert len(displays(session, code)) == 80


def test_ipython_imports(session):
    code = (
        "from IPython.display import display as d, HTML, Image, SVG, Markdown, Latex, JSON, Javascript, Pretty\n"
        "from IPython.display import Math, Code, DisplayHandle, publish_display_data, update_display, clear_output\n"
        "d(HTML('<i>'))"
    )
    (one,) = displays(session, code)
    assert one["data"]["text/html"] == "<i>"


@pytest.mark.parametrize(
    "code, mime, value",
    [
        ("HTML('<p>x')", "text/html", "<p>x"),
        ("Markdown('# h')", "text/markdown", "# h"),
        ("Latex('$x$')", "text/latex", "$x$"),
        ("Math('x')", "text/latex", "$\\displaystyle x$"),
        ("SVG('<svg/>')", "image/svg+xml", "<svg/>"),
        ("JSON({'a': 1})", "application/json", {"a": 1}),
        ("Javascript('1')", "application/javascript", "1"),
        (f"Image({PNG!r})", "image/png", PNG),
        ("Image(data=b'\\xff\\xd8rest')", "image/jpeg", b"\xff\xd8rest"),
    ],
)
def test_display_objects(shared, code, mime, value):
    reply = shared.run(f"from IPython.display import *\n{code}")
    assert reply.error is None
    (one,) = reply.displays
    assert one["data"][mime] == value and one["is_result"]


def test_files(session):
    (session.directory / "a.png").write_bytes(PNG)
    (session.directory / "a.svg").write_text("<svg>é</svg>")
    session.run("from IPython.display import *")
    for code in ("Image('a.png')", "Image(filename='a.png', width=5)"):
        (one,) = displays(session, code)
        assert one["data"]["image/png"] == PNG
    assert one["metadata"] == {"image/png": {"width": 5}}
    assert displays(session, "SVG('a.svg')")[0]["data"]["image/svg+xml"] == "<svg>é</svg>"
    assert session.run("Image(filename='missing.png')").error["name"] == "FileNotFoundError"
    assert "https://x/y.png" in displays(session, "Image(url='https://x/y.png')")[0]["data"]["text/html"]


def test_publish_display_data(session):
    (one,) = displays(
        session,
        "from IPython.display import publish_display_data as p\np({'text/html': 'x'}, metadata={'a': 1})",
    )
    assert (one["data"], one["metadata"]) == ({"text/html": "x"}, {"a": 1})


def test_get_ipython(session):
    assert session.run("from IPython import get_ipython\nprint(get_ipython())").stdout == "None\n"


def test_an_ipython_of_the_session_reaches_us(session):
    core = session.directory / "IPython" / "core"
    core.mkdir(parents=True)
    (core.parent / "__init__.py").write_text("real = True")
    (core / "__init__.py").write_text("")
    (core / "display_functions.py").write_text("def display(*a, **k): print('not us')\ndef other(): pass\n")
    (core.parent / "display.py").write_text("from IPython.core.display_functions import *")
    reply = session.run(
        "import IPython\nfrom IPython.display import display, other\ndisplay(5)\nIPython.real"
    )
    assert reply.result == "True" and reply.stdout == ""
    assert reply.displays[0]["data"] == {"text/plain": "5"}


# Libraries that open a browser or a program elsewhere


@pytest.mark.parametrize(
    "code, mime, value",
    [
        ("import plotly.io; plotly.io.show('a figure')", "text/html", "<script>a figure True</script>"),
        ("import plotly.io; plotly.io.show('a figure', 'browser')", "text/html", "<script>a figure True</script>"),
        ("import PIL.ImageShow; PIL.ImageShow.show(7);", "text/plain", "7"),
        (
            "import bokeh.io.showing as b; from types import SimpleNamespace as Named\n"
            "b._show_file_with_state('a plot', Named(file=Named(title='its', filename='plot.html')), None, None)\n"
            "assert open('plot.html').read() == 'a plot'",
            "text/html",
            "<script>a plot inline</script>",
        ),
    ],
)
def test_what_others_show_elsewhere(session, code, mime, value):
    session.run(MAKE)
    reply = session.run(code)
    assert reply.error is None, reply.error["traceback"]
    assert [shown["data"][mime] for shown in reply.displays] == [value]


# matplotlib

plots = pytest.mark.skipif(not Interpreter.has_matplotlib(), reason="this Python has no matplotlib")


def figures(reply):
    assert reply.error is None, reply.error["traceback"]
    return [d for d in reply.displays if d["data"].get("image/png", b"").startswith(b"\x89PNG")]


@plots
def test_open_figures_are_displayed_and_closed(session):
    reply = session.run(
        "import matplotlib.pyplot as plt\nplt.plot([1, 2]);\nplt.figure(); plt.bar([1], [2]);"
    )
    assert len(figures(reply)) == 2 and reply.stderr == ""
    assert session.run("plt.get_fignums()").result == "[]"
    assert figures(session.run("1")) == []


@plots
def test_empty_figures_are_not_shown(session):
    assert figures(session.run("import matplotlib.pyplot as plt\nplt.figure();")) == []


@plots
def test_show_shows_and_closes_at_once(session):
    reply = session.run(
        (
            "import matplotlib.pyplot as plt\n"
            "for i in range(3):\n"
            "    plt.plot([i, 2])\n"
            "    plt.show()\n"
            "    assert plt.get_fignums() == []"
        )
    )
    assert len(figures(reply)) == 3 and reply.stderr == ""


@plots
def test_use_agg_changes_nothing(session):
    code = (
        "import matplotlib\n"
        "matplotlib.use('Agg')\n"
        "from matplotlib.pyplot import plot, show\n"
        "plot([1]); show(block=False)\n"
        "matplotlib.use('agg')\n"
        "plot([2]); show()"
    )
    assert len(figures(session.run(code))) == 2


@plots
def test_figures_of_a_failing_cell(session):
    reply = session.run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\n1/0")
    assert reply.error["name"] == "ZeroDivisionError"
    assert len([d for d in reply.displays if "image/png" in d["data"]]) == 1


@plots
def test_a_figure_as_result_is_shown_once(session):
    reply = session.run("import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1])\nfig")
    (one,) = figures(reply)
    assert one["is_result"] and reply.result.startswith("<Figure size")
    assert len(figures(session.run("fig"))) == 1
    assert len(figures(session.run("display(fig)"))) == 1


@plots
def test_a_figure_that_cannot_be_drawn(session):
    reply = session.run("import matplotlib.pyplot as plt\nplt.plot([1])\nplt.title('$\\\\frac{1}$')\nNone")
    assert reply.displays and "image/png" not in reply.displays[0]["data"]
    assert session.run("plt.plot([1]);").error is None
