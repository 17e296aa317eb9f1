"""Signing in, running code, and what is to be seen of it."""

import re
import threading

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.support.gateway import until

TABLE = "import pandas as pd\npd.DataFrame({'town': ['Bonn', 'Ulm'], 'people': [336, 128]})"
FIGURE = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()"
HOSTILE = """
from IPython.display import HTML
HTML('''<b id="said"></b><button onclick="this.textContent = 'pressed'">press</button><script>
let text = ""
try { text += parent.parent.document.title } catch (e) { text += "no page " }
try { text += localStorage.length } catch (e) { text += "no storage " }
fetch("/v1/sessions").then(() => "network", () => "no network").then(found => {
  document.getElementById("said").textContent = text + found
})
</script>''')"""


def test_signing_in(page, gateway):
    page.click("button", "Sign out")
    page.see(".signin h1", "Limpet")
    page.type("e2b_0000", Keys.ENTER)
    page.see(".message", "not valid")
    page.complaints()  # the browser notes the refusal
    field = page.see(".signin input")
    field.clear()
    field.send_keys(gateway.anna, Keys.ENTER)
    page.see(".status", "idle")
    assert "42" in page.run("6 * 7").text
    here = page.see(".top h1").text
    page.driver.refresh()
    page.see(".top h1", here)


def test_a_session_is_opened_and_ended(page, http, name):
    page.click(".side button", "New session")
    page.answer(name, "Open")
    page.see(".top h1", name)
    cell = page.run("6 * 7")
    assert "42" in cell.text and "[1]" in cell.text
    page.click(f"[aria-label='End {name}']")
    page.click("dialog button", "End it")
    page.see(".welcome h1")
    assert name not in [row["session"] for row in http.get("/v1/sessions").json()["sessions"]]


def test_output_comes_while_the_code_runs(page, session):
    page.code("print('before')\nname = input('Who? ')\nprint('hello', name)")
    page.type(Keys.SHIFT, Keys.ENTER)
    page.see(".cell.running .stdout", "before")
    page.see(".status", "running")
    page.see(".ask label", "Who?")
    page.type("Ada", Keys.ENTER)
    page.see(".cell:not(.running) .stdout", "hello Ada")
    page.gone(".ask")
    page.see(".variables .name", "name")


def test_tables_figures_errors_and_colours(page, session):
    cell = page.run(TABLE)
    assert [each.text for each in cell.find_elements(By.CSS_SELECTOR, "table th")][:3] == ["", "town", "people"]
    page.run(FIGURE)
    figure = page.see("img.figure")
    until(lambda: page.driver.execute_script("return arguments[0].naturalWidth", figure) > 100, "the figure is loaded")
    cell = page.run("1 / 0")
    assert "ZeroDivisionError" in cell.find_element(By.CSS_SELECTOR, ".error strong").text
    page.run(r"print('\x1b[31mred\x1b[0m <b>not bold</b>')")
    assert page.see(".a-red", "red") and "<b>not bold</b>" in page.see(".stdout", "red").text
    bar = page.run("import sys\nfor n in range(1, 4): print(f'\\r{n}/3 done', end='', file=sys.stderr)")
    assert bar.find_element(By.CSS_SELECTOR, ".stderr").text == "3/3 done"
    page.run("from IPython.display import SVG\nSVG('<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"9\"/>')")
    page.see("img.figure[src^='data:image/svg']")
    page.run("from IPython.display import Markdown\nMarkdown('# Towns\\n\\n| a | b |\\n|---|---|\\n| **1** | 2 |')")
    assert page.see(".markdown h3", "Towns") and page.see(".markdown td strong", "1")
    page.run("from IPython.display import Math\nMath(r'\\frac{1}{2} \\left(\\begin{matrix}1 & 2\\\\3 & 4\\end{matrix}\\right)')")
    page.see(".markdown math mfrac")
    one, two, three, _ = (each.rect for each in page.driver.find_elements(By.CSS_SELECTOR, "math mtd"))
    assert one["x"] < two["x"] and one["y"] == two["y"] < three["y"]
    page.run("from IPython.display import Markdown\nMarkdown('costs \\$5, or $5 and $10, if $e^x$ grows\\n\\n$$\\na_1\\n$$\\n')")
    page.see(".markdown math[display=block] msub")
    assert "or $5 and $10, if" in page.see(".markdown p", "costs").text
    assert "from bash" in page.run("!echo from bash").text
    page.run("from IPython.display import clear_output\ndisplay('old')\nclear_output()\ndisplay('new')")
    assert [each.text for each in page.driver.find_elements(By.CSS_SELECTOR, ".cell:last-of-type .display")] == ["'new'"]


def test_long_output_is_one_box_that_follows_its_end(page, session):
    cell = page.run("for i in range(40_000): print('line', i)")
    (box,) = cell.find_elements(By.CSS_SELECTOR, ".stream")
    note, shown = box.get_property("textContent").split("\n", 1)
    gone = int(re.fullmatch(r"… (\d+) lines before these are not shown\.", note)[1])
    assert 10_000 < gone < 30_000  # about 20,000 stay, to a piece of the stream
    assert shown == "".join(f"line {i}\n" for i in range(gone, 40_000))
    until(lambda: page.driver.execute_script(
        "const box = arguments[0]; return box.scrollTop > 0 && box.scrollHeight - box.scrollTop - box.clientHeight < 40", box,
    ), "its end is to be seen")  # fmt: skip


def test_what_has_scripts_runs_without_rights(page, session):
    page.run(HOSTILE)
    with page.frame():
        page.see("#said", "no page no storage no network")
        page.click("button")
        page.see("button", "pressed")
    assert all("frame.html" in line or "srcdoc" in line for line in page.complaints())  # it is told of what was refused
    page.run("from IPython.display import HTML\nHTML('<img src=\"https://example.org/x.png\" onerror=\"parent.postMessage(9999, 1)\">')")
    with page.frame():
        page.see("pre", "has no network")
    page.complaints()


def test_interrupt_and_state(page, session):
    page.run("x = 1")
    page.code("while True: pass")
    page.type(Keys.SHIFT, Keys.ENTER)
    page.see(".status", "running")
    page.keys(Keys.CONTROL, ".")
    page.see(".cell.failed .error", "interrupted")
    page.run("import os; os._exit(1)")
    page.see(".state", "variables are")


def test_what_others_run_is_seen(page, session, http):
    thread = threading.Thread(target=http.post, args=(f"{session}/run",), kwargs={"json": {"code": "print('by another'); input()", "input": True}})
    thread.start()
    page.see(".cell.running .stdout", "by another")
    page.see(".ask")
    page.type("go on", Keys.ENTER)
    page.see(".cell:not(.running)", "by another")
    thread.join(60)
    page.driver.refresh()
    page.see(".cell:not(.running)", "by another")


def test_keys(page, session):
    page.run("apple_tree = [1]")
    page.see(".variables .name", "apple_tree")  # asked for by the page: while a session works it completes nothing
    page.driver.find_element(By.CSS_SELECTOR, ".editor textarea").send_keys("apple_t", Keys.TAB)
    until(lambda: page.driver.execute_script("return document.querySelector('.editor textarea').value") == "apple_tree", "completion")
    page.type(".", Keys.TAB)
    page.see(".completions li", "append")
    page.type(Keys.ARROW_DOWN, Keys.ENTER)
    page.see(".editor .colours", "apple_tree.")
    page.type(Keys.CONTROL, "a", Keys.NULL, Keys.BACKSPACE)
    page.type(Keys.ARROW_UP)
    page.see(".editor .colours", "apple_tree = [1]")
    page.keys(Keys.ALT, "3")
    page.see(".panel button", "Branch")
    page.type("if 1:", Keys.ENTER)
    page.code("for i in range(2):")
    page.type(Keys.END, Keys.ENTER, "print(i)", Keys.CONTROL, Keys.ENTER)
    page.see(".cell:not(.running) .stdout", "0\n1")
    page.keys(Keys.CONTROL, "l")
    page.gone(".cell")
    page.click("[aria-label=Keys]")
    page.see("dialog dt", "Shift+Enter")
    page.click("dialog button", "Close")


def test_small_screens_and_dark(page, session):
    page.size(480, 900)
    try:
        page.run("'small'")
        assert page.driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        page.gone(".side")
        page.click(".burger")
        page.see(".side .session")
        page.click("[aria-label='Dark or light']")
        dark = "return getComputedStyle(document.body).backgroundColor"
        first = page.driver.execute_script(dark)
        page.click("[aria-label='Dark or light']")
        assert page.driver.execute_script(dark) != first
    finally:
        page.size(1440, 1000)


def test_a_phone_reads_words_that_are_for_it(page, session):
    touched = {"features": [{"name": "hover", "value": "none"}]}
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", touched)
    page.size(480, 900)
    try:
        page.driver.refresh()
        page.see(".status", "idle")
        assert "Shift" not in page.see(".editor textarea").get_attribute("placeholder")
        for word in ("Checkpoint", "Reset", "Install", "Terminal"):
            page.see(".top button span", word)
        assert page.driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        page.click(".tabs button", "Files")
        page.see(".files .hint", "uploads")
    finally:
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        page.size(1440, 1000)


def test_the_page_comes_back_after_the_gateway(page, session, gateway):
    page.run("x = 5")
    gateway.stop()
    page.see(".status", "connecting")
    gateway.start(gateway.port)
    page.see(".status", "idle")
    page.complaints()  # the browser notes that nobody was there
    assert "5" in page.run("x").text


def test_nothing_comes_from_elsewhere(page, session, gateway):
    page.run(TABLE)
    asked = page.driver.execute_script("return performance.getEntriesByType('resource').map(each => each.name)")
    assert asked and all(each.startswith(gateway.url) for each in asked)
