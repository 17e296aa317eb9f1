"""The pictures of the documents. Each function makes one of its name; scripts/screenshots runs them."""

import argparse
import pathlib
import tempfile

from tests.support.jupyter import install_kernel, jupyter_in
from tests.support.limpetd import running

from . import test_jupyterlab as notebook
from .figures import ENGINE, FIND
from .lab import Lab
from .page import Page

IMAGES = pathlib.Path(__file__).parents[2] / "docs/images"
INTERACT = """\
import ipywidgets as widgets, matplotlib.pyplot as plt, numpy as np
x = np.linspace(0, 10, 400)

@widgets.interact(waves=(1, 9), damping=(0.0, 1.0))
def draw(waves=4, damping=0.2):
    plt.figure(figsize=(7, 2.2))
    plt.plot(x, np.sin(waves * x) * np.exp(-damping * x))"""
PROGRESS = """\
from tqdm.notebook import tqdm
for step in tqdm(range(300), desc="fitting"):
    pass"""
HISTORY = ["x = 1", "%limpet checkpoint early", "x += 1", "x += 2", "%limpet rollback early", "x *= 10", "%limpet history"]


def jupyterlab(lab, page):
    cells = (notebook.TABLE, notebook.FIGURE, notebook.ENDLESS, notebook.KEPT, notebook.INPUT)
    page.open(lab.write("sales.ipynb", notebook.TITLE, *cells))
    page.run(0, 1)
    page.run(1, 2)
    page.start(2)
    page.see(".jp-OutputArea-output", lambda output: output.text == "counting", 2)
    page.press("interrupt-kernel")
    page.ends(2, 3)
    page.run(3, 4)
    page.start(4)
    page.answer("Ada")
    page.ends(4, 5)
    return ".jp-NotebookPanel"


def widgets(lab, page):
    page.open(lab.write("widgets.ipynb", FIND + INTERACT, PROGRESS))
    page.run(0, 1)
    page.see(".widget-output img", cell=0)
    page.run(1, 2)
    page.see(".widget-html-content", lambda text: "300/300" in text.text, 1)
    return ".jp-NotebookPanel"


def history(lab, page):
    page.open(lab.write("history.ipynb", *HISTORY))
    for cell in range(len(HISTORY)):
        page.run(cell, cell + 1)
    page.see(".jp-OutputArea-output img", cell=len(HISTORY) - 1)
    return ".jp-NotebookPanel"


PICTURES = {each.__name__: (each, size) for each, size in (
    (jupyterlab, (1150, 1370)), (widgets, (1000, 900)), (history, (1000, 760)),
)}  # fmt: skip


def make(name, directory, file):
    """In a JupyterLab and a browser of its own: one opens again what another had open."""
    picture, size = PICTURES[name]
    lab = Lab(directory)
    try:
        page = Page(lab, directory / "browser", size)
        try:
            page.screenshot(picture(lab, page), file)
        finally:
            page.close()
    finally:
        lab.stop()


def main():
    parser = argparse.ArgumentParser(prog="scripts/screenshots")
    parser.add_argument("--into", metavar="DIRECTORY", type=pathlib.Path, default=IMAGES)
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"one of {', '.join(PICTURES)}; by default all")
    wanted = parser.parse_args()
    if unknown := set(wanted.names) - PICTURES.keys():
        parser.error(f"there is no {', '.join(sorted(unknown))}, but {', '.join(PICTURES)}")
    with running(ENGINE) as controller:
        for name in wanted.names or PICTURES:
            with tempfile.TemporaryDirectory() as directory, jupyter_in(pathlib.Path(directory)) as home:
                install_kernel("limpet", controller.socket)
                make(name, home, wanted.into / f"{name}.png")
            print(wanted.into / f"{name}.png", flush=True)


if __name__ == "__main__":
    main()
