"""The pictures of the web page in the documents. Each function makes one of its name; scripts/screenshots runs them."""

import argparse
import pathlib
import tempfile

from selenium.webdriver.common.keys import Keys

from tests.support import EXAMPLES
from tests.support.gateway import Gateway
from tests.support.limpetd import running
from tests.support.model import Model, code, text

from .conftest import ENGINE
from .page import Page

IMAGES = pathlib.Path(__file__).parents[2] / "docs/images"
TABLE = "import pandas as pd\n\ntable = pd.read_csv('/data/penguins.csv')   # uploaded by dropping it\ntable.groupby('species').mean(numeric_only=True).round(1)"
FIGURE = """\
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 2.6))
for species, birds in table.groupby('species'):
    axes.scatter(birds.bill_length_mm, birds.bill_depth_mm, s=12, label=species)
axes.legend()
plt.show()"""
TOWNS = "import pandas as pd\n\ntable = pd.DataFrame({'town': ['Bonn', 'Ulm', 'Jena'],\n                      'people': [336, 128, 111]})\ntable"
BARS = "import matplotlib.pyplot as plt\n\ntable.plot.bar(x='town', y='people', rot=0, figsize=(5, 2))\nplt.show()"
SAVE = "table.to_csv('artifacts/towns.csv')"
CRASH = "import os\n\nos._exit(3)   # ends the interpreter"


def web(http, page):
    """A session with a table, a figure and a crash after which the variables are still there."""
    for name in ("weather", "penguins"):
        http.post("/v1/sessions", json={"name": name, "checkpoint": "always"})
    session = "/v1/sessions/penguins"
    http.post(f"{session}/data", params={"path": "penguins.csv"}, content=(EXAMPLES / "data/penguins.csv").read_bytes())
    page.open("penguins")
    page.run(TABLE)
    page.run(FIGURE)
    page.see("img.figure")
    page.run(CRASH)
    page.see(".state", "variables are")
    page.see(".variables .name", "figure")
    (begun,) = [each["session"] for each in http.get("/v1/sessions").json()["sessions"] if each["session"].startswith("session-")]
    http.delete(f"/v1/sessions/{begun}")  # the one that signing in has begun
    page.gone(f"a.session[href='#{begun}']")


def chat(http, page):
    """A model that has made a table and a figure, and asks before it writes a file."""
    http.post("/v1/sessions", json={"name": "towns"})
    page.open("towns")
    page.click(".tabs button", "Chat")
    page.see(".say textarea").send_keys("Which of the three towns is the largest?", Keys.ENTER)
    page.see(".model strong", "Bonn")
    page.see(".say .primary:not([disabled])")
    page.click(".say .check input")
    page.see(".say textarea").send_keys("Save the table for me.", Keys.ENTER)
    page.see(".approve button", "Run it")


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.web.screenshots")
    parser.add_argument("--into", metavar="DIRECTORY", type=pathlib.Path, default=IMAGES)
    into = parser.parse_args().into
    with running(ENGINE) as controller, tempfile.TemporaryDirectory() as directory:
        model = Model(code(TOWNS), code(BARS, "2"), text("**Bonn** is, with `336` thousand people."), code(SAVE, "3"))
        variables = {"LIMPET_CHAT_URL": model.url, "LIMPET_CHAT_MODEL": "scripted"}
        gateway = Gateway(controller.socket, directory, environment=variables)
        gateway.anna = gateway.key("create", "anna")
        gateway.start()
        page = Page(gateway, pathlib.Path(directory) / "browser", (1440, 1270))
        try:
            page.sign_in()
            with gateway.client(gateway.anna) as http:
                for picture in (web, chat):
                    picture(http, page)
                    page.driver.save_screenshot(str(into / f"{picture.__name__}.png"))
                    print(into / f"{picture.__name__}.png", flush=True)
        finally:
            page.close()
            gateway.stop()
            model.stop()


if __name__ == "__main__":
    main()
