"""The page, as a person uses it: with keys, buttons, and what is to be seen."""

import contextlib

import pytest
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    MoveTargetOutOfBoundsException,
    StaleElementReferenceException,
    TimeoutException,
)
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from tests.browser.page import browser

WAIT = 90  # seconds
SIZE = (1440, 1000)
PASSING = [
    StaleElementReferenceException, ElementClickInterceptedException, ElementNotInteractableException, MoveTargetOutOfBoundsException,
]  # fmt: skip


class Page:
    def __init__(self, gateway, directory, size=SIZE):
        self._gateway = gateway
        self.driver = browser(directory, size)

    def sign_in(self):
        """Anew, also where another test has left a dialog open."""
        self.driver.get(self._gateway.url + "/icon.svg")
        self.driver.execute_script("sessionStorage.clear(); localStorage.clear(); sessionStorage.setItem('limpet-key', arguments[0])", self._gateway.anna)
        self.complaints()
        self.driver.get(self._gateway.url + "/")
        self.see(".status", "idle")

    def open(self, session):
        self.driver.execute_script("location.hash = encodeURIComponent(arguments[0])", session)
        self.see(".top h1", session.partition("/")[0])
        self.see(".status", "idle")

    def leave(self):
        """To no session."""
        self.driver.execute_script("location.hash = ''")
        self.see(".welcome h1")

    def away(self):
        """From the gateway: what it still asks ends with that."""
        self.driver.get("about:blank")

    def see(self, selector, text="", last=False):
        """The first of these elements that is to be seen and has the text, once there is one; or the last one."""

        def found(driver):
            elements = driver.find_elements(By.CSS_SELECTOR, selector)
            shown = [each for each in elements if each.is_displayed() and text in each.text]
            return shown and shown[-1 if last else 0]

        try:
            return WebDriverWait(self.driver, WAIT, 0.05, PASSING).until(found)
        except TimeoutException:
            shown = self.driver.find_element(By.TAG_NAME, "body").text
            pytest.fail(f"{selector} with {text!r} is not to be seen; there is: {shown[-2000:]}; {self.complaints()}")

    def gone(self, selector):
        WebDriverWait(self.driver, WAIT, 0.05, PASSING).until(
            lambda driver: not [each for each in driver.find_elements(By.CSS_SELECTOR, selector) if each.is_displayed()]
        )

    def click(self, selector, text=""):
        """Once it can be, also where what it stands in has to be pointed at first."""

        def clicked(driver):
            for element in driver.find_elements(By.CSS_SELECTOR, selector):
                if text in (element.get_property("textContent") or ""):
                    ActionChains(driver).move_to_element(element).perform()
                    element.click()
                    return True
            return False

        try:
            WebDriverWait(self.driver, WAIT, 0.05, PASSING).until(clicked)
        except TimeoutException:
            pytest.fail(f"{selector} with {text!r} cannot be clicked; {self.driver.find_element(By.TAG_NAME, 'body').text[-2000:]}")

    def type(self, *keys):
        """Where the page has put the cursor."""
        self.driver.switch_to.active_element.send_keys(*keys)

    def code(self, code):
        """Into the editor. Its own help with typing is not wanted here."""
        self.driver.execute_script(
            "const area = document.querySelector('.editor textarea'); area.focus(); area.value = arguments[0];"
            "area.dispatchEvent(new Event('input'))", code,
        )  # fmt: skip

    def run(self, code):
        """The cell, once it has ended."""
        before = self.cells()
        self.code(code)
        self.type(Keys.SHIFT, Keys.ENTER)
        WebDriverWait(self.driver, WAIT, 0.05, PASSING).until(lambda _: self.cells() > before)
        return self.see(".cells > .cell:not(.running):last-of-type")

    def cells(self):
        return len(self.driver.find_elements(By.CSS_SELECTOR, ".cells > .cell"))

    def answer(self, text, label):
        """The question in the dialog."""
        field = self.see("dialog input:not([type=checkbox])")
        field.clear()
        field.send_keys(text)
        self.click("dialog .actions button", label)
        self.gone("dialog")

    def keys(self, *keys):
        """Together."""
        chain = ActionChains(self.driver)
        for key in keys[:-1]:
            chain.key_down(key)
        chain.send_keys(keys[-1])
        for key in keys[:-1]:
            chain.key_up(key)
        chain.perform()

    @contextlib.contextmanager
    def frame(self):
        """In its `with` the page is what the last frame shows."""
        self.driver.switch_to.frame(self.see("iframe.framed", last=True))
        self.driver.switch_to.frame(self.see("iframe"))
        yield
        self.driver.switch_to.default_content()

    def complaints(self):
        """What the browser has found wrong since the last time."""
        return [line["message"] for line in self.driver.get_log("browser")]

    def size(self, width, height):
        self.driver.set_window_size(width, height)

    def close(self):
        self.driver.quit()
