"""The browser of sessions: limpet_browser in cells, what it makes, and what it survives."""

import json
import urllib.request

import pytest

NOTE = "the browser: its pages are left as they are"
BEGIN = "import limpet_browser; page = limpet_browser.page()"
TITLED = BEGIN + "; page.set_content('<title>kept</title><p>hello')"


@pytest.fixture
def session(client, name):
    with client.open(name, memory="512m", checkpoint="always", timeout=120) as session:
        yield session


def run(session, code):
    result = session.run(code)
    assert result.ok, (result.status, result.error)
    return result


def test_a_screenshot_is_shown_and_an_artifact(session):
    run(session, TITLED)
    result = run(session, "page.screenshot()")
    assert result.result.startswith("<screenshot, ") and "/session/artifacts/screenshot.png" in result.result
    [display] = result.displays
    assert display.data["image/png"].startswith(b"\x89PNG")
    [(path, host)] = result.artifacts.items()
    assert path == "/session/artifacts/screenshot.png"
    with open(host, "rb") as file:
        assert file.read() == display.data["image/png"]
    again = run(session, "page.locator('p').screenshot(type='jpeg')")
    assert list(again.artifacts) == ["/session/artifacts/screenshot.jpg"]


def test_where_a_path_is_given_it_lands_there(session):
    result = run(session, TITLED + "; page.screenshot(path='mine.png')")
    assert result.displays[0].data["image/png"] == session.files.read("mine.png")
    assert result.artifacts == {}


def test_pdfs_and_downloads(session):
    html = "<a id=d download='a b.txt' href='data:text/plain,hello'>d</a>"
    run(session, f"{BEGIN}; page.set_content({html!r})")
    assert list(run(session, "page.pdf()").artifacts) == ["/session/artifacts/page.pdf"]
    result = run(session, "with page.expect_download() as waits:\n    page.click('#d')\nopen(waits.value.path()).read()")
    assert result.result == "'hello'"
    with open(result.artifacts["/session/artifacts/a b.txt"]) as file:
        assert file.read() == "hello"
    assert "/session/artifacts/a b.txt" in result.displays[0].data["text/plain"]


def test_synchronous_and_asynchronous_objects_are_of_the_same_page(session):
    run(session, TITLED)
    assert run(session, "other = await limpet_browser.async_page(); await other.title()").result == "'kept'"
    run(session, "await other.evaluate('document.title = 1')")
    assert run(session, "page.title()").result == "'1'"
    assert run(session, "await other.screenshot()").displays[0].data["image/png"]


def test_other_code_may_have_event_loops(session):
    run(session, TITLED + "\npage.url")
    assert run(session, "import asyncio; asyncio.run(asyncio.sleep(0, 3))").result == "3"
    assert run(session, "await asyncio.sleep(0, 4)").result == "4"
    assert run(session, "asyncio.run(asyncio.sleep(0)); page.title()").result == "'kept'"


def test_events_routes_and_popups(session):
    run(session, BEGIN + "; said = []; page.on('console', lambda message: said.append(message.text))")
    run(session, "page.route('**/*', lambda route: route.fulfill(body='<b>routed</b>', content_type='text/html'))")
    assert "routed" in run(session, "page.goto('http://nowhere.test/'); page.content()").result
    assert run(session, "page.evaluate('console.log(7)'); said").result == "['7']"
    code = "with page.expect_popup() as popup:\n    page.evaluate(\"window.open('about:blank')\")\npopup.value.close()"
    run(session, code)


@pytest.mark.parametrize("how", ["crash", "rollback", "reset"])
def test_the_same_page_is_there_afterwards(session, how):
    run(session, TITLED)
    run(session, "other = await limpet_browser.async_page()")
    if how == "crash":
        result = session.run("import os; os._exit(1)")
        assert result.state == "rolled_back" and NOTE in result.not_restored
    elif how == "rollback":
        assert NOTE in session.rollback(session.checkpoint()).not_restored
    else:
        session.reset()
        run(session, "import limpet_browser")
    if how != "reset":
        stale = session.run("page.title()")
        assert "call limpet_browser.page() again" in stale.error.message
        assert session.run("await other.title()").status == "error"
    assert run(session, "page = limpet_browser.page(); page.title()").result == "'kept'"
    asynchronous = run(session, "other = await limpet_browser.async_page(); await other.title()")
    assert (asynchronous.result, asynchronous.stderr) == ("'kept'", "")


def test_a_browser_that_has_crashed_is_another_one_afterwards(session):
    run(session, TITLED)
    session.run("limpet_browser.browser().new_browser_cdp_session().send('Browser.crash')")
    assert run(session, "page = limpet_browser.page(); page.title()").result == "''"


OTHERS = """
import os
def owner(pid):
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return 0  # it has just ended
others = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and owner(pid) not in (0, os.getuid(), 65534)]
"""


def test_it_is_another_user_than_the_code(session):
    run(session, TITLED)
    assert session.run(OTHERS + "os.kill(others[0], 9)").error.name == "PermissionError"
    assert run(session, "len(others) > 0, page.title()").result == "(True, 'kept')"


SERVED = """
import time, urllib.request
end = time.monotonic() + 60
while True:
    try:
        urllib.request.urlopen("http://127.0.0.1:8000/").close()
        break
    except OSError:
        assert time.monotonic() < end
        time.sleep(0.05)
"""


def test_pages_of_files_and_of_the_loopback_and_none_of_elsewhere(session):
    session.files.write("a.html", b"<p>of a file</p>")
    assert "of a file" in run(session, BEGIN + "; page.goto('file:///session/a.html'); page.content()").result
    session.start("python3 -m http.server 8000")
    run(session, SERVED)
    assert "of a file" in run(session, "page.goto('http://127.0.0.1:8000/a.html'); page.content()").result
    refused = session.run("page.goto('http://10.0.0.1/')")
    assert refused.status == "error" and "net::ERR_" in refused.error.message


def test_others_control_it_at_its_port(session):
    port = run(session, BEGIN + "; limpet_browser.PORT").result
    with session.forward(int(port)) as address, urllib.request.urlopen(f"http://{address}/json/version") as answer:
        assert json.load(answer)["webSocketDebuggerUrl"].startswith(f"ws://{address}/devtools/browser/")


def test_commands_have_it_too(session):
    code = "import sys; sys.path.append('/usr/lib/limpet/python'); import limpet_browser; print(limpet_browser.endpoint())"
    assert session.exec(["python3", "-c", code], timeout=120).stdout.startswith("ws://127.0.0.1:9222/")
    assert all("chromium" not in process.command for process in session.processes())


def test_an_image_without_one_says_what_to_do(client, name):
    with client.open(name, image="default") as session:
        result = session.run("import limpet_browser; limpet_browser.endpoint()")
    assert result.error.name == "BrowserError" and "limpet image build --with browser" in result.error.message


PROXY = """
import http.server
class Proxy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"by the proxy: " + self.path.encode())
http.server.HTTPServer(("127.0.0.1", 8000), Proxy).serve_forever()
"""


def test_a_proxy_of_the_environment_holds(client, name):
    proxy = "http://127.0.0.1:8000"
    with client.open(name, memory="512m", timeout=120, env={"http_proxy": proxy, "https_proxy": proxy}) as session:
        session.start(["python3", "-c", PROXY])
        run(session, SERVED)
        assert "by the proxy: http://nowhere.test/a" in run(session, BEGIN + "; page.goto('http://nowhere.test/a'); page.content()").result


def test_many_pages_within_the_limits_of_a_session(session):
    code = "pages = [page.context.new_page() for _ in range(9)]\nfor i, other in enumerate(pages): other.set_content(f'<title>{i}</title>')"
    run(session, BEGIN + "\n" + code)
    assert run(session, "[other.title() for other in pages]").result == str([str(i) for i in range(9)])
    code = "import glob\nlen(glob.glob('/proc/[0-9]*/task/*'))"
    assert int(run(session, code).result) < 128
