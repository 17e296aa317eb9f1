"""What is interactive is drawn, in a frame from which nothing gets out."""

import textwrap

import pytest

from .figures import ENGINE, FIND, find
from .listener import Listener

PLOTLY = FIND + "import plotly.graph_objects as go\nfigure = go.Figure(go.Bar(y=[1, 3, 2]))\nfigure"
PLOTLY_SHOW = "figure.show()"
BOKEH = """\
from bokeh.plotting import figure, output_notebook, show
output_notebook()
drawn = figure(height=200)
drawn.line([1, 2], [3, 4])
show(drawn)"""
ALTAIR = """\
import altair as alt
alt.Chart(alt.Data(values=[{"a": 1, "b": 2}])).mark_bar().encode(x="a:Q", y="b:Q")"""


@pytest.fixture
def listener():
    server = Listener()
    yield server
    server.stop()


def html(text):
    return "%%html\n" + textwrap.dedent(text)


def test_figures_of_plotly_are_drawn(lab, page):
    page.open(lab.write("plotly.ipynb", PLOTLY, PLOTLY_SHOW))
    for cell in (0, 1):
        page.run(cell, cell + 1)
        with page.frame(cell):
            page.see(".plotly .bars .point")
        page.see("iframe", lambda frame: frame.size["height"] > 400, cell)


@pytest.mark.parametrize("engine", ["local"])  # the image has neither
def test_figures_of_bokeh_and_altair_are_drawn(lab, page):
    page.open(lab.write("others.ipynb", find("local") + BOKEH, ALTAIR))
    page.run(0, 1)
    with page.frame(0):
        page.until("return document.querySelector('[data-root-id] > *')?.shadowRoot?.childElementCount > 0")
    page.run(1, 2)
    with page.frame(1):
        page.see(".vega-embed canvas, .vega-embed svg")
    page.see("iframe", lambda frame: 200 <= frame.size["height"] < 400, 0)


@pytest.mark.parametrize("engine", sorted({"local", ENGINE}))  # plotly 6, and that of Debian
def test_a_figure_widget_is_shown_as_it_is_now(lab, page, engine):
    widget = "import plotly.graph_objects as go\nfigure = go.FigureWidget(go.Bar(y=[1, 3, 2]))\nfigure"
    changed = "import ipywidgets as w\nfigure.data[0].y = [1, 3]\nfigure.add_bar(y=[4])\ndisplay(figure)\nw.VBox([figure])"
    page.open(lab.write("figurewidget.ipynb", find(engine) + widget, changed))
    for cell in (0, 1):
        page.run(cell, cell + 1)
        with page.frame(cell):
            page.until("return document.querySelectorAll('.plotly .bars .point').length === 3")
    page.see(".widget-html-content", lambda said: "FigureModel" in said.text or "AnyModel" in said.text, 1)


def test_scripts_styles_and_errors_are_seen(lab, page):
    styled = "<style>td { color: rgb(1, 2, 3) }</style><table><tr><td>styled</td></tr></table>"
    script = "%%html\n<p id=p></p><script>p.textContent = 6 * 7</script><script>no_such_name</script>"
    page.open(lab.write("scripts.ipynb", html(styled), script))
    page.run(0, 1)
    page.run(1, 2)
    with page.frame(0):
        assert page.see("td").value_of_css_property("color") in ("rgb(1, 2, 3)", "rgba(1, 2, 3, 1)")
    with page.frame(1):
        assert page.see("#p").text == "42"
        assert "no_such_name" in page.see("pre").text


REQUESTS = """\
<link rel=stylesheet href=URL/stylesheet><link rel=prefetch href=URL/prefetch><link rel=preload as=image href=URL/preload>
<div style="background: url(URL/background)">x</div><iframe src=URL/frame></iframe><object data=URL/object></object>
<svg><image href=URL/svg /></svg><video src=URL/video></video><script src=URL/script></script>
<p id=said></p>
<script>
const ends = make => new Promise(end => { const made = make(); made.onerror = made.onload = made.onclose = end })
const tries = [
  () => fetch("URL/fetch", {mode: "no-cors"}),
  () => ends(() => Object.assign(new Image(), {src: "URL/image"})),
  () => ends(() => new WebSocket("URL/socket".replace("http", "ws"))),
  () => ends(() => new EventSource("URL/events")),
  () => ends(() => new Worker("URL/worker")),
  () => import("URL/module"),
  () => navigator.sendBeacon("URL/beacon"),
  () => window.open("URL/popup"),
  () => { top.location = "URL/top" },
  () => { parent.parent.document.title = "mine" },
  () => document.cookie,
  () => localStorage.length,
  () => new RTCPeerConnection(),
]
Promise.allSettled(tries.map(async each => await each())).then(all => { said.textContent = all.map(each => each.status) })
</script>
"""
LEAVES = {
    "by itself": "<script>location = 'URL/location'</script>",
    "by a header": "<meta http-equiv=refresh content='0; url=URL/refresh'><script></script>",
    "by a link": "<a id=a href=URL/link>x</a><script>a.click()</script>",
}


def test_nothing_gets_out_of_a_frame(lab, page, listener):
    page.open(lab.write("requests.ipynb", html(REQUESTS.replace("URL", listener.url("inside")))))
    page.run(0, 1)
    with page.frame(0):
        said = page.see("#said", lambda element: element.text).text.split(",")
        assert "is not loaded: what a cell shows has no network" in page.see("pre").text
    assert [said[0], *said[-5:]] == ["rejected"] * 6, said
    assert page.title() != "mine"
    assert_heard_only_us(page, listener)


@pytest.mark.parametrize("way", LEAVES)
def test_a_frame_goes_nowhere(lab, page, listener, way):
    page.open(lab.write("leaves.ipynb", html(LEAVES[way].replace("URL", listener.url("inside")))))
    page.run(0, 1)
    with page.frame(0):
        page.until("return location.protocol == 'chrome-error:'")
    assert_heard_only_us(page, listener)


def assert_heard_only_us(page, listener):
    """What the notebook's own page asks for later does arrive."""
    page.ask(listener.url("page"))
    assert listener.paths == ["/page"]
