"""Widgets, as a frontend hears and moves them; what JupyterLab makes of them: tests/browser."""

import base64
import json

import pytest

from limpet.jupyter import _frame, _widgets
from tests.support.jupyter import FIGURES

from .conftest import Notebook

BEGIN = f"import sys; sys.path.insert(1, {str(FIGURES)!r})\nimport ipywidgets as w"
CONTROLS = "@jupyter-widgets/controls"


@pytest.fixture
def own(own_notebook):
    """For tests that count its cells, go back, or ask for all of its widgets."""
    return begun(own_notebook())


@pytest.fixture(scope="module")
def notebook(install, preloaded):
    """Shared: each test has its widgets anew."""
    notebook = begun(Notebook(preloaded=preloaded))
    yield notebook
    notebook.end(now=True)


def begun(notebook):
    assert FIGURES, "sessions find no ipywidgets: scripts/environment figures"
    notebook.run(BEGIN)
    return notebook


def send(notebook, kind, comm_id, data, buffers=(), metadata=None, **more):
    """What a browser says; returns what is told until the kernel is idle again."""
    session = notebook.client.session
    message = session.msg(kind, {"comm_id": comm_id, "data": data, **more}, metadata=metadata)
    session.send(notebook.client.shell_channel.socket, message, buffers=list(buffers))
    request = message["header"]["msg_id"]
    seen = notebook.until(request, lambda each: each["content"].get("execution_state") == "idle")
    return [(each["msg_type"], each["content"]) for each in seen if each["msg_type"] != "status"]


def change(notebook, comm_id, **state):
    return send(notebook, "comm_msg", comm_id, {"method": "update", "state": state, "buffer_paths": []})


def opened(cell, name):
    """The id and the state of the model of that name that a cell has made last."""
    made = [(each["comm_id"], each["data"]["state"]) for each in cell.of("comm_open")]
    return [row for row in made if row[1]["_model_name"] == name][-1]


def states(shown):
    return [content["data"]["state"] for kind, content in shown if kind == "comm_msg"]


def texts(shown):
    return "".join(content["text"] for kind, content in shown if kind == "stream")


def test_a_widget_is_moved_and_heard(notebook):
    cell = notebook.run("s = w.IntSlider(max=9)\ns.observe(lambda c: print('now', c['new']), 'value')\ns")
    model, _ = opened(cell, "IntSliderModel")
    view = cell.of("display_data")[0]["data"]["application/vnd.jupyter.widget-view+json"]
    assert view["model_id"] == model
    assert texts(change(notebook, model, value=4)) == "now 4\n"
    moved = notebook.run("s.value += 1; s.value")
    assert moved.result == "5" and {"value": 5} in states(moved.shown)


def test_what_a_widget_does_is_no_cell(own):
    model, _ = opened(own.run("s = w.IntSlider(); s"), "IntSliderModel")
    change(own, model, value=1)
    change(own, model, value=2)
    assert own.run("s.value").reply["execution_count"] == 3
    history = own.run("%limpet history").of("display_data")[0]["data"]["text/plain"]
    assert history.count("In [") == 3 and "call" not in history


def test_errors_and_interrupts_of_a_callback(notebook):
    cell = notebook.run("def fail(c):\n    1/0\ns = w.IntSlider(); s.observe(fail, 'value'); s")
    model, _ = opened(cell, "IntSliderModel")
    (error,) = [content for kind, content in change(notebook, model, value=4) if kind == "error"]
    assert error["ename"] == "ZeroDivisionError" and f"<cell {cell.reply['execution_count']}>" in "".join(error["traceback"])
    notebook.run("s.unobserve_all()\ndef endless(c):\n    print('on')\n    while True: pass\ns.observe(endless, 'value')")
    message = notebook.client.session.msg(
        "comm_msg", {"comm_id": model, "data": {"method": "update", "state": {"value": 5}, "buffer_paths": []}}
    )
    notebook.client.shell_channel.send(message)
    request = message["header"]["msg_id"]
    notebook.until(request, lambda each: each["content"].get("text") == "on\n")
    notebook.manager.interrupt_kernel()
    notebook.until(request, lambda each: each["content"].get("ename") == "KeyboardInterrupt")
    notebook.until(request, lambda each: each["content"].get("execution_state") == "idle")
    assert notebook.run("s.value").result == "5"


def test_after_a_rollback(own):
    first, _ = opened(own.run("s = w.IntSlider(); s"), "IntSliderModel")
    own.run("%limpet checkpoint before")
    cell = own.run("late = w.Text()\nlate")
    late, _ = opened(cell, "TextModel")
    shown = cell.of("display_data")[0]["transient"]["display_id"]
    own.run("s.value = 7")
    back = own.run("%limpet rollback before")
    now = {content["comm_id"]: content["data"]["state"] for kind, content in back.shown if kind == "comm_msg"}
    assert now[first]["value"] == 0
    assert now[late]["disabled"] and "stale" in now[late]["tooltip"]
    (update,) = back.of("update_display_data")
    assert update["transient"]["display_id"] == shown and "This widget is stale" in update["data"]["text/plain"]
    assert change(own, late, value="x") == []
    change(own, first, value=3)
    assert own.run("s.value").result == "3"


def test_after_a_crash_and_a_reset(own, limpetd):
    model, _ = opened(own.run("s = w.IntSlider(); s"), "IntSliderModel")
    own.run("s.value = 2")
    own.run("%limpet checkpoint before-the-crash")  # a busy machine may not have had time for one
    crash = own.run("import os; os.abort()")
    assert "as call" in crash.stderr
    change(own, model, value=6)
    assert own.run("s.value").result == "6"
    with limpetd.client() as client:
        client.attach(own.run("%limpet branch").stdout.split()[-1]).reset()
    assert "This widget is stale" in str(own.run("1").of("update_display_data"))


def test_output_goes_where_it_is_wanted(notebook):
    cell = notebook.run("here = %pwd\nout = w.Output(); out")
    model, _ = opened(cell, "OutputModel")
    request = notebook.start("with out:\n    print('a'); display(1); 1/0\nprint('b')")
    told = notebook.finish(request)
    kinds = [kind for kind, _ in told.shown]
    assert kinds == ["comm_msg", "stream", "display_data", "error", "comm_msg", "stream"]
    assert [state["msg_id"] for state in states(told.shown)] == [request, ""]
    error = told.shown[3][1]
    assert error["ename"] == "ZeroDivisionError" and f"<cell {told.reply['execution_count']}>" in "".join(error["traceback"])


def test_what_is_large_goes_both_ways(notebook):
    cell = notebook.run("i = w.Image(value=bytes(3 << 20), format='png'); i\nu = w.FileUpload(); u")
    sent = [each for each in cell.of("comm_open") if each["data"]["buffer_paths"] == [["value"]]]
    assert len(sent) == 1
    model, _ = opened(cell, "FileUploadModel")
    files = [{"name": "a", "type": "", "size": 5 << 20, "last_modified": 1}]
    data = {"method": "update", "state": {"value": files}, "buffer_paths": [["value", 0, "content"]]}
    send(notebook, "comm_msg", model, data, [bytes(range(256)) * (20 << 10)])
    assert notebook.run("len(u.value[0]['content']), bytes(u.value[0]['content'][:3])").result == f"({5 << 20}, b'\\x00\\x01\\x02')"
    assert notebook.run("import os; [n for n in os.listdir() if n.startswith('.jupyter-')]").result == "[]"


def test_a_page_that_is_loaded_again_gets_all(own):
    model, _ = opened(own.run("h = w.HTML('<script>1</script>'); h"), "HTMLModel")
    send(own, "comm_open", "c" * 32, {}, target_name="jupyter.widget.control", metadata={"version": "1.0.0"})
    told = send(own, "comm_msg", "c" * 32, {"method": "request_states"})
    (answer,) = [content["data"] for kind, content in told if kind == "comm_msg"]
    row = answer["states"][model]
    assert row["model_name"] == "HTMLModel" and row["model_module"] == CONTROLS
    assert _frame.is_framed(row["state"]["value"])


def test_a_thread_that_goes_on_is_heard_with_the_next_cell(notebook):
    notebook.run(
        "import threading\ns = w.IntProgress(); go = threading.Event()\n"
        "def work():\n    go.wait(); s.value = 9; done.set()\n"
        "done = threading.Event(); threading.Thread(target=work).start(); s"
    )
    notebook.run("go.set(); done.wait()")
    assert {"value": 9} in states(notebook.run("s.description = 'x'").shown) or notebook.run("s.value").result == "9"


OWN = """\
from traitlets import Unicode
class Own(w.DOMWidget):
    _model_module = _view_module = Unicode("own").tag(sync=True)
    _model_name = _view_name = Unicode("M").tag(sync=True)
Own()"""


def test_other_comms_and_other_widgets(notebook):
    cell = notebook.run("import comm; comm.create_comm(target_name='plotly')")
    assert "but those of widgets alone" in cell.traceback
    cell = notebook.run(OWN)
    _, state = opened(cell, "HTMLModel")
    assert "<code>own</code> is not shown" in state["value"] and state["_model_module"] == CONTROLS


def test_floods_are_bounded(notebook):
    many = notebook.run("kept = []\nwhile True: kept.append(w.Layout())")
    assert "a notebook has at most 2000 widgets" in many.traceback
    assert notebook.run("for each in kept: each.close()\nw.Layout(); 1").result == "1"


HTML = "<b>x</b><script>1</script><img src='http://elsewhere/' onerror='1'>"


def state_of(name, module=CONTROLS, models=None, **state):
    given = {"_model_name": name, "_model_module": module, "_view_name": name.replace("Model", "View"), **state}
    return _widgets.Model(given, False).opened(given, models or {})


def test_what_is_html_is_framed_or_cleaned():
    assert _frame.is_framed(state_of("HTMLModel", value=HTML)["value"])
    again = state_of("HTMLModel", value=state_of("HTMLModel", value=HTML)["value"])["value"]
    assert again.count("<iframe") == 1
    assert state_of("HTMLMathModel", value=HTML + r"$\href{x}{y}$")["value"] == "<b>x</b><img>$\\\u200bhref{x}{y}$"
    slider = state_of("IntSliderModel", description=HTML, description_allow_html=True)
    assert slider["description"] == "<b>x</b><img>" and slider["description_allow_html"]
    assert state_of("IntSliderModel", description=HTML)["description"] == HTML


def test_a_frame_that_is_not_ours_is_no_frame():
    ours = _frame.framed("x")
    packed = base64.b64encode(b"not packed").decode()
    assert not _frame.is_framed(_frame.BEFORE + packed + _frame.BEHIND)
    assert not _frame.is_framed(ours.replace("sandbox", "data"))
    assert _frame.is_framed(ours)


@pytest.mark.parametrize(
    ("name", "given", "kept"),
    [
        ("TextModel", {"_view_name": "HTMLView"}, {"_view_name": "TextView"}),
        ("HTMLStyleModel", {"background": "url(http://elsewhere/)"}, {"background": None}),
        ("HTMLStyleModel", {"background": r"u\72l(http://elsewhere/)"}, {"background": None}),
        ("LayoutModel", {"_model_module": "@jupyter-widgets/base", "width": "50%"}, {"width": "50%"}),
        ("TextModel", {"_dom_classes": ["jp-Dialog", "widget-interact", 5]}, {"_dom_classes": ["widget-interact"]}),
        ("ButtonModel", {"icon": "x jp-Dialog"}, {"icon": "xjp-ialog"}),
    ],
)  # fmt: skip
def test_what_else_a_state_may_do(name, given, kept):
    state = state_of(name, **{"module": given.pop("_model_module", CONTROLS)}, **given)
    assert {key: state[key] for key in kept} == kept


@pytest.mark.parametrize("key", ["__proto__", "constructor", "prototype", "a b"])
def test_keys_that_are_no_traits(key):
    assert key not in state_of("TextModel", **{key: {"polluted": 1}})
    assert "__proto__" not in json.dumps(state_of("TextModel", value={"__proto__": 1}))


def test_links_past_the_kernel():
    models = {name: _widgets.Model({"_model_module": CONTROLS, "_model_name": f"{name}Model"}, False) for name in ("HTML", "Text", "IntSlider")}
    link = {"source": ["IPY_MODEL_IntSlider", "value"], "target": ["IPY_MODEL_Text", "value"]}
    assert state_of("LinkModel", models=models, **link)["target"] == link["target"]
    for end in (["IPY_MODEL_HTML", "value"], ["IPY_MODEL_Text", "_view_name"], ["IPY_MODEL_Text", "description_allow_html"],
                ["IPY_MODEL_none", "value"], ["IPY_MODEL_Text", "_dom_classes"], "x", [1, 2]):  # fmt: skip
        for kind in ("LinkModel", "DirectionalLinkModel"):
            for link in ({"source": end}, {"target": end}):
                with pytest.raises(_widgets.Unsafe):
                    state_of(kind, models=models, **link)


def test_the_sandbox_may_say_anything(notebook):
    """Nothing of it ends the kernel."""
    said = [
        "asks.ask('tool', 'jupyter_comm', ([0, b'x', [1, 2, -1]], {}))",
        "asks.ask('tool', 'jupyter_comm', ([5, b'x', None], {}))",
        "asks.ask('tool', 'jupyter_comm', ([0, b'[]', [2]], {}))",
        "asks.ask('tool', 'jupyter_comm', ([0, b'[' * 100000, [100000]], {}))",
        "comms.publish('comm_open', 'a', {'state': 5}, target='jupyter.widget')",
        "comms.publish('comm_open', 'b', {'state': {'_model_name': [], '_model_module': {}}}, target='jupyter.widget')",
        "comms.publish('comm_open', 'c', {'state': {'_model_name': 'OutputModel', '_model_module': '@jupyter-widgets/output', "
        "'outputs': [1, {}, {'output_type': 'error', 'traceback': 5}, {'output_type': 'display_data', 'data': {'text/html': 1}}]}}, "
        "target='jupyter.widget')",
        "comms.publish('comm_msg', 'b', {'method': 'update', 'buffer_paths': [['__proto__']]}, buffers=[b''])",
        "comms.publish('comm_msg', '../x', {})",
    ]
    notebook.run("from limpet_runtime import asks, comms")
    for each in said:
        notebook.run(f"try: {each}\nexcept Exception as error: print(error)")
    assert notebook.run("1 + 1").result == "2"
