#!/usr/bin/env python3
"""browser-use in a session: an agent that works in the session's browser, with a model whose key stays outside.

usage: browser_use_agent.py IMAGE URL

IMAGE has the part `browser` and the package browser-use:

    echo browser-use >requirements.txt
    PIP_IGNORE_INSTALLED=1 limpet image build --with browser --pip requirements.txt --name agent

URL is a service with OpenAI's interface, such as https://api.openai.com/v1; its key is in OPENAI_API_KEY.
"""

import os
import sys

import limpet

PAGE = "<title>Prices</title><h1>Prices</h1><p>Tea costs 3.</p>"
AGENT = """
import limpet_browser
from browser_use import Agent, BrowserSession, ChatOpenAI

browser = BrowserSession(cdp_url=limpet_browser.endpoint())
model = ChatOpenAI(model="gpt-5-mini", base_url="http://model.limpet/", api_key="it is added outside")
agent = Agent("What does tea cost? See http://127.0.0.1:8000/prices.html", model, browser_session=browser, use_vision=False)
history = await agent.run(max_steps=5)
history.final_result()
"""


def main(image, url):
    key = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    with limpet.Client() as client, client.open(
        image=image, memory="2g", pids=256, timeout=300, bindings={"model": {"url": url, "headers": key}},
        env={"ANONYMIZED_TELEMETRY": "false", "BROWSER_USE_LOGGING_LEVEL": "result"},
    ) as session:  # fmt: skip
        session.files.write("prices.html", PAGE)
        session.start("python3 -m http.server --bind 127.0.0.1 8000")
        result = session.run(AGENT).check()
        print("the agent says:", result.result)
        print("the key inside:", session.run("import os; [v for v in os.environ if 'KEY' in v]").result)
        print("its page:", session.run("limpet_browser.page().title()").result)


main(*sys.argv[1:])
