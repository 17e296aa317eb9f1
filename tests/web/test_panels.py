"""What is beside the console: variables, files, states, processes and the terminal."""

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from tests.support.gateway import until


def tab(page, name):
    page.click(".tabs button", name)


def test_variables(page, session):
    page.run("alpha = [1, 2, 3]; beta = 'text'")
    row = page.see(".variables tr", "alpha")
    assert "list" in row.text and "3" in row.text
    page.see(".filter").send_keys("bet")
    page.see(".variables tr", "'text'")
    until(lambda: len(page.driver.find_elements(By.CSS_SELECTOR, ".variables tr")) == 1, "the others are hidden")


def test_files(page, session, http, tmp_path):
    (tmp_path / "up.csv").write_text("a,b\n1,2\n")
    tab(page, "Files")
    page.driver.find_element(By.CSS_SELECTOR, ".files input[type=file]").send_keys(str(tmp_path / "up.csv"))
    page.see(".entry", "up.csv")
    assert http.get(f"{session}/files/up.csv").content == b"a,b\n1,2\n"
    page.click(".chips button", "Data")
    page.see(".crumbs", "data")
    drop = """
        const files = new DataTransfer(); files.items.add(new File(["dropped"], "dropped.txt"))
        document.querySelector(".files").dispatchEvent(new DragEvent("drop", {dataTransfer: files, bubbles: true}))
    """
    page.driver.execute_script(drop)
    page.see(".entry", "dropped.txt")
    assert "dropped" in page.run("open('/data/dropped.txt').read()").text
    page.click(".chips button", "Session")
    page.click("[aria-label='New directory']")
    page.answer("sub", "OK")
    page.click(".entry", "sub")
    page.see(".panel .hint", "Nothing here")
    page.click(".crumbs button", "session")
    page.click(".entry", "up.csv")
    page.see("dialog pre", "1,2")
    page.click("dialog button", "Close")
    page.click("[aria-label='Remove up.csv']")
    page.click("dialog button", "Remove")
    until(lambda: http.get(f"{session}/files/up.csv").status_code == 404, "the file is removed")


def test_artifacts_are_downloaded(page, session, tmp_path):
    page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    page.run("open('artifacts/report.txt', 'w').write('made inside')")
    page.click(".artifact", "report.txt")
    page.run("from PIL import Image; Image.new('RGB', (40, 30), 'red').save('artifacts/red.png')")
    picture = page.see(".artifacts img.figure")
    until(lambda: page.driver.execute_script("return arguments[0].naturalWidth", picture) == 40, "the picture is shown")
    until(lambda: (tmp_path / "report.txt").exists() and (tmp_path / "report.txt").read_text() == "made inside", "the download")


def test_checkpoint_rollback_branch_compare_commit(page, session, name):
    page.run("x = 1")
    tab(page, "History")
    page.click(".panel .bar button", "Checkpoint")
    page.answer("first", "Checkpoint")
    page.see(".tree .name", "first")
    page.run("x = 2")
    page.click(".tree .about", "first")
    page.click("dialog button", "Go back")
    page.see(".mark", "Went back")
    assert "1" in page.run("x").text.split("\n")
    page.click("[aria-label='Branch from first']")
    page.answer("try", "Branch")
    page.see(".top .branch", "try")
    page.run("x = 50")
    tab(page, "History")
    page.click("[aria-label^='Compare']")
    assert "50" in page.see(".compared tr", "x").text
    page.click(".node button", "Commit")
    page.click("dialog .actions button", "Commit")
    page.gone(".top .branch")
    assert "50" in page.run("x").text


def test_processes_and_the_terminal(page, session):
    tab(page, "Processes")
    page.see(".panel input").send_keys("echo from the background; sleep 300", Keys.ENTER)
    page.click(".about", "echo from")
    page.see(".screen", "from the background")
    page.click("[aria-label^='End it']")
    page.see(".node.ended", "signal 15")
    page.click("[aria-label^='Hide the terminal']")
    page.click("[title^='Terminal (']")
    page.see(".screen", "$")
    page.type("echo $((6 * 7)) | tee n; stty size; printf '\\033[1;31mred\\033[0m\\n'\n")
    page.see(".screen", "42")
    page.see(".screen .a-red", "red")
    page.type("seq 1 200; printf '\\033[H\\033[2Jclear%s\\n' ed; PS1='ready> '\n")
    page.see(".screen", "cleared\nready>")  # and so the shell reads again: before, the terminal would keep a Ctrl-D
    page.type(Keys.CONTROL, "d", Keys.NULL)
    page.see(".screen", "[ended]")


def test_another_language(page, session, http):
    page.see("select[title=Language] option", "bash")
    Select(page.see("select[title=Language]")).select_by_visible_text("bash")
    assert "bash says 42" in page.run("echo bash says $((6 * 7))").text
    offered = [each.text for each in Select(page.see("select[title=Language]")).options]
    assert offered == http.get(f"{session}/languages").json()["languages"]
    for language in offered:
        assert http.post(f"{session}/run", json={"code": "", "language": language}).status_code == 200


def test_a_session_that_ends_says_so(page, session, http):
    page.run("1")
    http.delete(session)
    page.see(".prompt", "has ended")


def test_a_session_says_before_that_it_ends(page, http, name):
    assert http.post("/v1/sessions", json={"name": name, "ttl": 16}).status_code == 201
    page.open(name)
    page.code("half = 'typed'")
    page.see(".prompt", "at ")
    page.click(".prompt button", "Keep it")
    page.gone(".over")
    page.see(".prompt", "Nobody has used it for 16 s")
    assert not page.driver.find_element(By.CSS_SELECTOR, ".top [title^=Terminal]").is_enabled()
    page.click(".prompt button", "Begin again")
    page.see(".status", "idle")
    page.see(".editor .colours", "half = 'typed'")
    assert http.get(f"/v1/sessions/{name}").status_code == 200
    page.away()
    http.delete(f"/v1/sessions/{name}")


def test_a_name_that_is_refused_can_be_mended(page, session):
    tab(page, "History")
    page.click(".panel .bar button", "Checkpoint")
    field = page.see("dialog input:not([type=checkbox])")
    field.send_keys("before cleaning", Keys.ENTER)
    page.see("dialog [role=alert]", "name")
    assert field.get_property("value") == "before cleaning"
    page.complaints()  # the browser tells of the answer
    page.answer("before-cleaning", "Checkpoint")
    page.see(".tree .name", "before-cleaning")


def test_what_is_done_to_a_checkpoint_can_be_had_by_keys(page, session):
    page.run("x = 1")
    tab(page, "History")
    page.click(".panel .bar button", "Checkpoint")
    page.answer("first", "Checkpoint")
    page.see(".tree .name", "first")
    page.run("x = 2")
    page.driver.execute_script("document.querySelector('.panel .bar button:last-child').focus()")

    def focused_next():
        page.keys(Keys.TAB)
        return page.driver.execute_script("return document.activeElement.getAttribute('aria-label')")

    assert any(focused_next() == "Go back to first" for _ in range(40))  # automatic ones come and go beside it
    page.keys(Keys.ENTER)
    page.see("dialog", "Go back to first?")
    page.keys(Keys.TAB)
    page.keys(Keys.ENTER)
    page.see(".mark", "Went back")


def test_what_is_drawn_anew_keeps_the_focus(page, session, http):
    assert http.post(f"{session}/checkpoints", json={"name": "first"}).status_code == 201
    tab(page, "History")
    button = page.see("[aria-label='Go back to first']")
    page.driver.execute_script("arguments[0].focus(); arguments[0].isOld = true", button)
    assert http.post(f"{session}/checkpoints", json={"name": "second"}).status_code == 201
    page.see(".tree .name", "second")
    focused = "const now = document.activeElement; return [now.getAttribute('aria-label'), now.isOld || false]"
    assert page.driver.execute_script(focused) == ["Go back to first", False]


def test_what_limpet_keeps_for_itself_is_not_shown(page, session, http):
    page.run("open('mine', 'w').close()")
    tab(page, "Files")
    page.see(".entry", "mine")
    there = [entry["name"] for entry in http.get(f"{session}/files").json()["entries"]]
    shown = [each.text for each in page.driver.find_elements(By.CSS_SELECTOR, ".entry .name")]
    assert ".limpet" in there and sorted(shown) == sorted(set(there) - {".limpet"})
