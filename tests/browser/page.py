"""A notebook in JupyterLab, as a person uses it: with keys, buttons, and what is to be seen."""

import contextlib

import pytest
from selenium import webdriver
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    StaleElementReferenceException,
    TimeoutException,
)
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from tests.support.needs import need
from tests.support.ports import free_port

WAIT = 300  # seconds
SOON = 60
PASSING = [StaleElementReferenceException, ElementClickInterceptedException, ElementNotInteractableException]
SIZE = (1150, 1370)  # the whole notebook is in view
OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # as root there is no other way; it sees nothing but this server
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


def browser(directory, size):
    options = webdriver.ChromeOptions()
    options.binary_location = need("chromium", "browser")
    for option in (*OPTIONS, f"--user-data-dir={directory}", f"--window-size={size[0]},{size[1]}"):
        options.add_argument(option)
    return webdriver.Chrome(options, webdriver.ChromeService(need("chromedriver", "browser"), port=free_port()))


class Page:
    def __init__(self, lab, directory, size=SIZE):
        self._lab = lab
        self._driver = browser(directory, size)

    def open(self, notebook):
        self._driver.get(self._lab.url(f"lab/tree/{notebook}"))
        self.see(".jp-NotebookPanel .jp-CodeCell .cm-content")
        self.until_idle()

    def see(self, selector, condition=lambda element: element.is_displayed(), cell=None):
        """The first of these elements that is as it should be, once there is one; in a cell, or anywhere."""

        def found(driver):
            within = driver if cell is None else self._cell(cell)
            return next(filter(condition, within.find_elements(By.CSS_SELECTOR, selector)), None)

        try:
            return WebDriverWait(self._driver, WAIT, 0.2, PASSING).until(found)
        except TimeoutException:
            shown = "the page" if cell is None else f"cell {cell}, which shows {self.shown(cell)!r}"
            pytest.fail(f"{selector} is not to be seen in {shown}")

    def use(self, selector, act, cell=None):
        """Does something with what see() finds; again where the page has put another in its place meanwhile."""

        def done(element):
            if not element.is_displayed():
                return False
            act(element)
            return True

        self.see(selector, done, cell)

    def click(self, selector, cell=None):
        self.use(selector, lambda element: element.click(), cell)

    def type(self, selector, *keys, cell=None):
        self.use(selector, lambda element: element.send_keys(*keys), cell)

    @contextlib.contextmanager
    def frame(self, cell):
        """In its `with` the page is what the cell shows in its frame, of which there are two, one in the other."""
        self._driver.switch_to.frame(self.see("iframe", cell=cell))
        self._driver.switch_to.frame(self.see("iframe"))
        yield
        self._driver.switch_to.default_content()

    def until(self, script):
        """It returns true."""
        WebDriverWait(self._driver, WAIT, 0.2).until(lambda driver: driver.execute_script(script))

    def value(self, expression):
        return self._driver.execute_script(f"return {expression}")

    def save(self, notebook):
        """Until the server has what the cells show: a page that is left earlier loses it."""
        self.click('.jp-NotebookPanel-toolbar [data-command="docmanager:save"]')
        shown = len(self._driver.find_elements(By.CSS_SELECTOR, ".jp-NotebookPanel .jp-CodeCell .jp-OutputArea-child"))
        half = [ValueError]  # no notebook yet: the server writes over the file in place
        WebDriverWait(self._driver, WAIT, 0.2, half).until(lambda driver: self._lab.outputs(notebook) == shown)

    def load_again(self):
        self._driver.refresh()
        self.see(".jp-NotebookPanel .jp-CodeCell .cm-content")
        self.until_idle()

    def ask(self, url):
        """A request of the page, which does not read the answer."""
        self._driver.execute_async_script(
            "const end = arguments[1]; fetch(arguments[0], {mode: 'no-cors'}).finally(end)", url
        )

    def title(self):
        return self._driver.title

    def until_idle(self):
        self.see('.jp-Notebook-ExecutionIndicator[data-status="idle"]')

    def press(self, command):
        """A button of the notebook's toolbar."""
        self.click(f'.jp-NotebookPanel-toolbar [data-command="notebook:{command}"]')

    def accept(self):
        """The dialog that asks whether one is sure."""
        self.click(".jp-Dialog .jp-mod-accept")

    def start(self, cell):
        """Runs the code cell of that number, from 0. JupyterLab may miss the keys while it still loads: they are pressed again."""
        before, changed = self._prompt(cell), False
        while not changed:
            self.click(".cm-content", cell)
            self.type(".cm-content", Keys.CONTROL, Keys.ENTER, cell=cell)
            changed = self._changes(lambda: self._prompt(cell) != before)

    def _prompt(self, cell):
        return self.see(".jp-InputPrompt", cell=cell).text

    def _changes(self, condition):
        """Soon enough for somebody who waits for it."""
        try:
            return WebDriverWait(self._driver, SOON, 0.2, PASSING).until(lambda _: condition())
        except TimeoutException:
            return False

    def run(self, cell, count):
        """Until it has that number of execution."""
        self.start(cell)
        self.ends(cell, count)

    def ends(self, cell, count):
        self.see(".jp-InputPrompt", lambda prompt: prompt.text == f"[{count}]:", cell)
        self.until_idle()

    def shown(self, cell):
        """The text of what the cell shows."""
        return self._cell(cell).find_element(By.CSS_SELECTOR, ".jp-Cell-outputArea").text

    def answer(self, text):
        """To input()."""
        self.type("input.jp-Stdin-input", text, Keys.ENTER)

    def _cell(self, number):
        return self._driver.find_elements(By.CSS_SELECTOR, ".jp-NotebookPanel .jp-CodeCell")[number]

    def screenshot(self, selector, file):
        """Of what is seen of an element."""
        self.see(selector).screenshot(str(file))

    def close(self):
        self._driver.quit()
