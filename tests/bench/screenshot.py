"""A floor of a screenshot: Playwright in a plain Python process, with a browser that it has started itself.

`python3 screenshot.py` prints "ready", and for each line "N" on its standard input takes N screenshots and prints how
many nanoseconds each took.
"""
import sys
import time

BROWSER = "/usr/lib/chromium/chromium-headless-shell"
PAGE = "<h1>A page</h1><table>" + "".join(f"<tr><td>row {i}<td>{i * i}" for i in range(40)) + "</table>"


def once(page):
    start = time.perf_counter_ns()
    page.screenshot()
    return time.perf_counter_ns() - start


def serve():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        page = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"]).new_page()
        page.set_content(PAGE)
        print("ready", flush=True)
        for line in sys.stdin:
            print(*(once(page) for _ in range(int(line))), flush=True)


if __name__ == "__main__":
    serve()
