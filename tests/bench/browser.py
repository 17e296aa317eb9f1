"""The browser of a session, in an image that `limpet image build --with browser --name NAME` has made."""
from figures import Row, at_most
from programs import PythonCalls, at, interleaved
from runner import Group, LeftOut
from screenshot import PAGE
from sessions import HERE, Helper

GROUP = Group("browser", __doc__)
OPTIONS = {"memory": "2g", "pids": 256, "timeout": 120}


class Floor:
    """Screenshots of a program beside the code of a session."""

    def __init__(self, session):
        self.helper = Helper(session, HERE / "screenshot.py")

    def block(self, count, gap=0.0):
        return self.helper.ask(count)


def image(bench):
    """The name of an image with a browser."""
    for name in ("parts", "browser"):
        if (bench.image().parent.parent / name / "rootfs/usr/lib/chromium/chromium-headless-shell").exists():
            return name
    raise LeftOut("no image has a browser; make one with image/build build --with browser --name browser")


@GROUP.case(
    Row("browser.screenshot", "`page.screenshot()` in a cell, warm, until the picture is in the record and an artifact, to "
        "that of Playwright in a Python process in a container of its own, which has started the browser itself, medians.",
        at_most(1.3)),
)
def screenshot(bench):
    name = image(bench)
    with bench.main.session("bench-browser", image=name, **OPTIONS) as session, \
            bench.main.session("bench-browser-floor", image=name, **OPTIONS) as other:
        session.run(f"import limpet_browser; page = limpet_browser.page(); page.set_content({PAGE!r})").check()
        floor = Floor(other)
        return {"browser.screenshot": at(0.5, interleaved(floor, PythonCalls(session, "page.screenshot()"), bench.rounds, 20))}
