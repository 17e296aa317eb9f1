"""The chat, with a model that says what the test has written down."""

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.support.gateway import Gateway, until
from tests.support.model import Model, code, text

from .page import Page


@pytest.fixture
def model():
    made = Model()
    yield made
    made.stop()


@pytest.fixture
def chatting(limpetd, model, tmp_path, name):
    """A page at a session, of a gateway that has the model."""
    gateway = Gateway(limpetd.socket, tmp_path, environment={"LIMPET_CHAT_URL": model.url, "LIMPET_CHAT_MODEL": "scripted"})
    gateway.anna = gateway.key("create", "anna")
    gateway.start()
    page = Page(gateway, tmp_path / "browser")
    try:
        with gateway.client(gateway.anna) as http:
            http.post("/v1/sessions", json={"name": name})
            page.sign_in()
            page.open(name)
            yield page
            assert page.complaints() == []
            page.leave()
            http.delete(f"/v1/sessions/{name}")
    finally:
        page.close()
        gateway.stop()


def test_a_conversation(chatting, model):
    page = chatting
    page.run("x = 'before'")
    page.click(".tabs button", "Chat")
    page.see(".turns .hint", "scripted")
    model.answers += [code("x = 'after'\nprint('the model ran this')"), text("The variable is **changed**.")]
    page.see(".say textarea").send_keys("Change x", Keys.ENTER)
    page.see(".person", "Change x")
    page.see(".turn .stdout", "the model ran this")
    page.see(".cells .stdout", "the model ran this")  # in the console as well
    page.see(".model strong", "changed")
    page.driver.refresh()
    page.click(".tabs button", "Chat")
    page.see(".turn .stdout", "the model ran this")

    page.click("[aria-label^='Take this back']")
    page.click("dialog button", "Take back")
    page.gone(".turn")
    until(lambda: page.see(".say textarea").get_property("value") == "Change x", "what was said is there to be changed")
    assert "'before'" in page.run("x").text

    model.answers += [code("x = 'never'"), text("As you wish.")]
    page.click(".say .check input")
    page.see(".say textarea").send_keys(" please", Keys.ENTER)
    page.see(".person", "Change x please")
    page.click(".approve button", "No")
    page.see(".model", "As you wish.")
    page.see(".say .primary:not([disabled])")
    model.answers += [code("x = 'allowed'", "2"), text("Done.")]
    page.see(".say textarea").send_keys("again", Keys.ENTER)
    page.click(".approve button", "Run it")
    page.see(".model", "Done.")
    assert "'allowed'" in page.run("x").text
    assert len(page.driver.find_elements(By.CSS_SELECTOR, ".turn")) == 2
