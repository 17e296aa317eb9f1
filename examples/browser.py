#!/usr/bin/env python3
"""A form, filled in by code in a session, and a picture of it. The page survives the end of Python.

usage: browser.py [IMAGE]   an image with a browser: `limpet image build --with browser --name web`
"""

import sys

import limpet

FORM = """
<title>Order</title>
<h1>What would you like?</h1>
<form onsubmit="done.innerText = what.value + ', coming up'; return false">
  <input id=what> <button>Order</button>
</form>
<p id=done></p>
"""


def main(image="web"):
    with limpet.Client() as client, client.open(image=image, checkpoint="always", timeout=120) as session:
        session.files.write("form.html", FORM)
        session.run("import limpet_browser; page = limpet_browser.page()").check()
        session.run("page.goto('file:///session/form.html')").check()
        session.run("page.fill('#what', 'tea'); page.click('text=Order')").check()
        print("the page says:", session.run("page.inner_text('#done')").check().result)

        picture = session.run("page.screenshot()").check()
        for path, host in picture.artifacts.items():
            print("picture:", path, "of", len(picture.displays[0].data["image/png"]), "bytes, here", host)

        result = session.run("import os; os._exit(1)")
        print(f"{result.status}, {result.state};", result.not_restored[-1])
        session.run("page = limpet_browser.page()").check()
        print("it still says:", session.run("page.inner_text('#done')").check().result)


main(*sys.argv[1:])
