"""Widgets in JupyterLab: moved in the page, followed in the sandbox, and harmless whatever their state says."""

import json

import pytest
from selenium.webdriver.common.keys import Keys

from .figures import FIND
from .listener import Listener

SLIDER = (
    FIND
    + """\
import ipywidgets as w
moved = []
slider = w.IntSlider(description="size", max=10)
slider.observe(lambda change: moved.append(change["new"]), "value")
slider"""
)
INTERACT = "import ipywidgets as w\n@w.interact(a=(0, 10))\ndef twice(a=3):\n    print('a is', a)\n    return a * 2"
PROGRESS = "from tqdm.notebook import tqdm\nfor step in tqdm(range(20), desc='steps'): pass"
HANDLE = ".noUi-handle"


def move(page, cell, keys):
    page.type(HANDLE, *keys, cell=cell)


def test_a_slider_both_ways(lab, page):
    page.open(lab.write("slider.ipynb", SLIDER, "slider.value = 7", "moved, slider.value", "slider.value += 1"))
    page.run(0, 1)
    page.see(".widget-readout", lambda readout: readout.text == "0", 0)
    page.run(1, 2)
    page.see(".widget-readout", lambda readout: readout.text == "7", 0)
    move(page, 0, [Keys.ARROW_RIGHT])
    page.see(".widget-readout", lambda readout: readout.text == "8", 0)
    page.until_idle()
    page.run(2, 3)
    assert "([7, 8], 8)" in page.shown(2)


def test_interact_and_tqdm(lab, page):
    page.open(lab.write("interact.ipynb", FIND + INTERACT, PROGRESS))
    page.run(0, 1)
    page.see(".widget-output", lambda output: output.text.split("\n") == ["a is 3", "6"], 0)
    move(page, 0, [Keys.ARROW_RIGHT])
    page.see(".widget-output", lambda output: output.text.split("\n") == ["a is 4", "8"], 0)
    page.run(1, 2)
    page.see(".widget-html-content", lambda text: "20/20" in text.text, 1)
    page.see(".progress-bar-success", cell=1)


def test_widgets_after_the_page_was_loaded_again(lab, page):
    notebook = lab.write("again.ipynb", SLIDER, "slider.value")
    page.open(notebook)
    page.run(0, 1)
    move(page, 0, [Keys.ARROW_RIGHT])
    page.run(1, 2)
    assert page.shown(1).endswith("\n1")
    page.save(notebook)
    page.load_again()
    page.see(".widget-readout", lambda readout: readout.text == "1", 0)
    move(page, 0, [Keys.ARROW_RIGHT])
    page.run(1, 3)
    assert page.shown(1).endswith("\n2")


def test_widgets_after_a_rollback(lab, page):
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    page.open(lab.write("stale.ipynb", SLIDER, "%limpet checkpoint before", "late = w.IntText(); late", "slider.value = 9",
                        "%limpet rollback before", crash))  # fmt: skip
    for cell in range(5):
        page.run(cell, cell + 1)
    page.see(".widget-readout", lambda readout: readout.text == "0", 0)
    page.see(".jp-OutputArea-output", lambda output: "This widget is stale" in output.text, 2)
    page.run(5, 6)
    move(page, 0, [Keys.ARROW_RIGHT])
    page.see(".widget-readout", lambda readout: readout.text == "1", 0)


@pytest.fixture
def listener():
    server = Listener()
    yield server
    server.stop()


HOSTILE = """\
import ipywidgets as w
BAD = '<b class=bad>x</b><img src="URL/img" onerror="document.title=1"><script>document.title=1</script>'
LINK = '<a href="javascript:document.title=1" style="background: url(URL/style)" onclick="document.title=1">link</a>'
text = w.Text(BAD)
html = w.HTML("")
shown = [
    w.HTML(BAD), w.HTML(LINK), w.HTMLMath(BAD + r"$\\\\href{javascript:document.title=1}{x}$"), w.Label(BAD),
    w.IntSlider(description=BAD), w.IntSlider(description=BAD, description_allow_html=True, tooltip=BAD),
    w.Dropdown(options=[BAD]), w.ToggleButtons(options=[BAD], icons=["x jp-Dialog"], tooltips=[BAD]),
    w.Accordion(children=[w.Label(BAD)], titles=[BAD]), w.HTML("x", style=dict(background="url(URL/background)")),
    w.RadioButtons(options=[BAD]), w.Select(options=[BAD]), w.Valid(readout=BAD), w.Text(placeholder=BAD), text, html,
]
out = w.Output()
out.append_display_data(w.HTML(BAD))
out.outputs += ({"output_type": "display_data", "data": {"text/html": BAD, "application/javascript": "document.title=1"}, "metadata": {}},)
display(w.VBox(shown), out)
"""
FORGED = """\
import limpet_runtime.comms as comms
def forge(comm_id, **state):
    names = {"_model_module": "@jupyter-widgets/controls", "_model_name": "TextModel", "_view_name": "HTMLView",
             "_view_module": "@jupyter-widgets/controls", "_view_module_version": "2.0.0", "_model_module_version": "2.0.0"}
    comms.publish("comm_open", comm_id, {"state": {**names, **state}}, {"version": "2.1.0"}, target="jupyter.widget")
    display({"application/vnd.jupyter.widget-view+json": {"model_id": comm_id, "version_major": 2, "version_minor": 0}}, raw=True)
BAD = '<img src="URL/forged" onerror="document.title=1">'
forge("view", value=BAD)
forge("module", _model_module="anywidget", _view_module="anywidget", _model_name="AnyModel", _view_name="AnyView",
      _esm="document.title=1", value=BAD)
forge("polluting", **{"__proto__": {"polluted": 1}, "constructor": {"prototype": {"polluted": 1}}})
try:
    w.Image(value=b"URL/image", format="url")
except Exception as error:
    print(error)
try:
    w.jslink((text, "value"), (html, "value"))
except Exception as error:
    print(error)
try:
    comms.publish("comm_msg", "view", {"method": "update", "state": {}, "buffer_paths": [["__proto__", "polluted"]]}, buffers=[b"1"])
except Exception as error:
    print(error)
"""


def test_hostile_state_harms_nobody(lab, page, listener):
    cells = [FIND + HOSTILE.replace("URL", listener.url("inside")), FORGED.replace("URL", listener.url("inside"))]
    page.open(lab.write("hostile.ipynb", *cells))
    title = page.title()
    page.run(0, 1)
    page.see(".widget-vbox .widget-label", cell=0)
    page.see(".widget-output iframe", cell=0)
    page.run(1, 2)
    assert "jslink() and jsdlink() do not join" in page.shown(1)
    assert "a widget of the format 'url' is not shown" in page.shown(1)
    assert "bytes in a widget" in page.shown(1)
    page.see(".widget-html-content", lambda said: "AnyModel of anywidget is not shown" in said.text, 1)
    page.see(".widget-text input", cell=1)
    assert page.title() == title
    assert page.value("({}).polluted === undefined && !document.querySelector('.jp-Cell-outputArea .jp-Dialog')")
    page.ask(listener.url("page"))
    assert listener.paths == ["/page"]


def test_floods_are_slowed_down_and_bounded(lab, page):
    flood = FIND + "import ipywidgets as w\nn = w.IntText(); display(n)\nfor i in range(2500): n.value = i + 1"
    many = "kept = []\nwhile True: kept.append(w.Layout())"
    page.open(lab.write("flood.ipynb", flood, many, "1 + 1"))
    page.run(0, 1)
    page.see(".widget-text input", lambda number: number.get_property("value") == "2500", 0)
    page.run(1, 2)
    assert "a notebook has at most 2000 widgets" in page.shown(1)
    page.run(2, 3)


def test_a_figure_of_matplotlib_follows_a_slider(lab, page):
    code = FIND + (
        "import ipywidgets as w, matplotlib.pyplot as plt\n@w.interact(n=(1, 5))\ndef draw(n=2):\n    plt.plot(range(n))"
    )
    page.open(lab.write("draw.ipynb", code))
    page.run(0, 1)
    first = page.see(".widget-output img", cell=0).get_attribute("src")
    move(page, 0, [Keys.ARROW_RIGHT])
    page.see(".widget-output img", lambda image: image.get_attribute("src") != first, 0)
    assert json.dumps(page.shown(0)).count("img") == 0
