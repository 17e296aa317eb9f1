"""A notebook in JupyterLab from its first cell to a restart, seen in a browser."""

from .figures import FIND

TITLE = "# A session of Limpet\nThe cells of this notebook run in a container without network."
TABLE = """\
import numpy as np, pandas as pd
number = np.arange(365)
units = 50 + number % 30 + 20 * np.sin(number / 58)
sales = pd.DataFrame({"day": pd.date_range("2026-01-01", periods=365), "units": units})
sales.head(3)"""
FIGURE = """\
import matplotlib.pyplot as plt
plt.figure(figsize=(7, 2))
plt.plot(sales.day, sales.units, color="lightgray")
plt.plot(sales.day, sales.units.rolling(30).mean());"""
ENDLESS = """\
rounds = 0
print("counting")
while True:
    rounds += 1"""
KEPT = "len(sales), rounds > 0"
INPUT = "name = input('Your name? ')\nname.upper()"
TABLE_CELL, FIGURE_CELL, ENDLESS_CELL, KEPT_CELL, INPUT_CELL = range(5)


def test_a_notebook(lab, page):
    page.open(lab.write("sales.ipynb", TITLE, FIND + TABLE, FIGURE, ENDLESS, KEPT, INPUT))

    page.run(TABLE_CELL, 1)
    assert page.see("table.dataframe", cell=TABLE_CELL).text.startswith("day units")

    page.run(FIGURE_CELL, 2)
    picture = page.see(".jp-OutputArea-output img", cell=FIGURE_CELL)
    page.see("img", lambda image: int(image.get_property("naturalWidth")) > 300, FIGURE_CELL)
    assert picture.get_attribute("src").startswith("data:image/png;base64,")

    page.start(ENDLESS_CELL)
    page.see(".jp-OutputArea-output", lambda output: output.text == "counting", ENDLESS_CELL)
    page.press("interrupt-kernel")
    page.ends(ENDLESS_CELL, 3)
    assert "KeyboardInterrupt" in page.shown(ENDLESS_CELL)

    page.run(KEPT_CELL, 4)
    assert "(365, True)" in page.shown(KEPT_CELL)

    page.start(INPUT_CELL)
    page.answer("Ada")
    page.ends(INPUT_CELL, 5)
    assert "'ADA'" in page.shown(INPUT_CELL)

    page.press("restart-kernel")
    page.accept()
    page.until_idle()
    page.run(KEPT_CELL, 1)
    assert "NameError" in page.shown(KEPT_CELL)
