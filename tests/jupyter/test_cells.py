"""What a cell does and shows."""

import base64

import pytest

from .frames import content_of

PNG = b"\x89PNG\r\n\x1a\nrest"


def test_variables_stay_and_the_counts_are_the_notebooks(notebook):
    first = notebook.run("kept = 41")
    second = notebook.run("kept + 1")
    assert second.result == "42"
    assert second.of("execute_result")[0]["execution_count"] == second.reply["execution_count"]
    assert second.reply["execution_count"] == first.reply["execution_count"] + 1


def test_text_comes_while_the_cell_runs(notebook, tmp_path):
    go = tmp_path / "go"
    request = notebook.start(
        f"import os, time\nprint('before', flush=True)\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\nprint('after')"
    )
    notebook.until(request, lambda message: message["content"].get("text") == "before\n")
    go.touch()
    assert notebook.finish(request).stdout == "after\n"


def test_stderr_is_apart(notebook):
    cell = notebook.run("import sys; print('out'); print('err', file=sys.stderr)")
    assert (cell.stdout, cell.stderr) == ("out\n", "err\n")


def test_a_traceback_has_colours_and_the_cells_of_the_notebook(notebook):
    defined = notebook.run("def fails():\n    return 1 / 0").reply["execution_count"]
    notebook.run("%limpet namespace")  # a cell here, and no call there
    cell = notebook.run("fails()")
    error = cell.of("error")[0]
    assert (error["ename"], error["evalue"], cell.status) == (
        "ZeroDivisionError",
        "division by zero",
        "error",
    )
    assert "\x1b[" in cell.traceback
    assert f'<cell {defined}>"' in cell.traceback
    assert f'<cell {cell.reply["execution_count"]}>"' in cell.traceback
    assert cell.reply["ename"] == "ZeroDivisionError"


def test_text_that_looks_like_a_frame_is_left_alone(notebook):
    assert "<cell 1234>" in notebook.run("raise ValueError('see <cell 1234>')").traceback


def test_a_silent_cell_runs_and_shows_nothing(notebook):
    before = notebook.run("0").reply["execution_count"]
    silent = notebook.run("quiet = 7; print('x'); quiet", silent=True)
    assert silent.shown == [] and silent.status == "ok"
    after = notebook.run("quiet")
    assert (after.result, after.reply["execution_count"]) == ("7", before + 1)


def test_nothing_runs_behind_an_error(notebook):
    """What has arrived until then: the cell waits for an answer that leaves here after the others."""
    requests = [notebook.start(code) for code in ("skipped = 0", "1 / int(input())", "skipped = 1", "skipped = 2")]
    notebook.client.get_stdin_msg(timeout=60)
    notebook.client.input("0")
    statuses = [notebook.reply(request)["status"] for request in requests]
    assert statuses == ["ok", "error", "aborted", "aborted"]
    assert notebook.run("skipped").result == "0"


def test_a_frontend_may_go_on_behind_an_error(notebook):
    requests = [notebook.start("1 / 0", stop_on_error=False), notebook.start("2")]
    assert [notebook.reply(request)["status"] for request in requests] == ["error", "ok"]


def test_user_expressions_are_refused(notebook):
    expressions = notebook.run("1", user_expressions={"a": "1 + 1"}).reply["user_expressions"]
    assert expressions["a"]["status"] == "error" and "not evaluated" in expressions["a"]["evalue"]


def test_lines_for_the_shell_run_in_the_sandbox(notebook):
    assert notebook.run("!echo he''llo").stdout == "hello\n"
    assert notebook.run("!exit 3").shown == []
    assert notebook.run("lines = !printf 'a\\nb'\nlines").result == "['a', 'b']"
    assert notebook.run("for n in range(2):\n    !echo again").stdout == "again\nagain\n"
    assert notebook.run("sign = 7 % 4\n'!no %line?'").result == "'!no %line?'"


def test_asking_for_inline_figures_is_no_mistake(notebook):
    assert notebook.run("%matplotlib inline\ninline = 1").status == "ok"
    assert notebook.run("inline").result == "1"


def test_wrong_python_says_where(notebook):
    cell = notebook.run("a = 1\nb = = 2")
    assert cell.of("error")[0]["ename"] == "SyntaxError" and "line 2" in cell.traceback.replace(
        "\x1b[34m", ""
    )


class TestDisplays:
    def test_the_result_has_all_its_forms_and_comes_once(self, notebook):
        cell = notebook.run(
            "class A:\n  def _repr_html_(self): return '<b>a</b>'\n  def __repr__(self): return 'A!'\nA()"
        )
        results = [content["data"] for content in cell.of("execute_result")]
        assert results == [{"text/html": "<b>a</b>", "text/plain": "A!"}]

    def test_pictures_are_base64(self, notebook):
        cell = notebook.run(
            f"display({{'image/png': {PNG!r}}}, raw=True, metadata={{'image/png': {{'width': 5}}}})"
        )
        shown = cell.of("display_data")[0]
        assert base64.b64decode(shown["data"]["image/png"]) == PNG
        assert shown["metadata"] == {"image/png": {"width": 5}}

    def test_plain_data_that_json_does_not_know(self, notebook):
        cell = notebook.run(
            "display({'application/json': {'a': float('nan'), 'b': b'x', 'c': [None]}}, raw=True)"
        )
        assert cell.of("display_data")[0]["data"]["application/json"] == {
            "a": "nan",
            "b": "eA==",
            "c": [None],
        }

    def test_updates_say_what_they_update(self, notebook):
        cell = notebook.run("handle = display('one', display_id='d1')\nhandle.update('two')")
        assert cell.of("display_data")[0]["transient"] == {"display_id": "d1"}
        update = cell.of("update_display_data")[0]
        assert (update["transient"], update["data"]) == ({"display_id": "d1"}, {"text/plain": "'two'"})
        later = notebook.run("handle.update('three')").of("update_display_data")[0]
        assert later["transient"] == {"display_id": "d1"} and later["data"] == {"text/plain": "'three'"}

    def test_what_was_shown_is_taken_back(self, notebook):
        code = "from IPython.display import clear_output, display\nfor i in range(3): clear_output(wait=True); display(i)"
        cell = notebook.run(code + "\nclear_output()")
        assert [message["wait"] for message in cell.of("clear_output")] == [True, True, True, False]
        assert len(cell.of("display_data")) == 3

    def test_a_table_keeps_its_looks(self, notebook):
        table = (
            '<table border="1" class="dataframe"><thead><tr style="text-align: right"><th>a</th></tr></thead>'
            "<tbody><tr><td>1</td></tr></tbody></table>"
        )
        shown = show(notebook, "text/html", table)
        for part in ('border="1"', 'class="dataframe"', "text-align:", "<th>a</th>", "<td>1</td>"):
            assert part in shown["text/html"]

    def test_a_table_of_pandas_is_in_the_page_itself(self, notebook):
        """It begins with rules that notebooks have anyway: no reason for a frame."""
        table = "<style scoped>th { color: red }</style><table class='dataframe'><tr><td>1</td></tr></table>"
        shown = show(notebook, "text/html", table)["text/html"]
        assert 'class="dataframe"' in shown and "iframe" not in shown and "color" not in shown

    @pytest.mark.parametrize(
        "html",
        [
            "<script>alert(1)</script>",
            "<img src=x onerror=alert(1)>",
            "<img src='https://elsewhere.example/?secret'>",
            "<img src='/api/contents'>",
            "<iframe srcdoc='x'></iframe>",
            "<button data-commandlinker-command='x'>x</button>",
            "<style>@import 'https://elsewhere.example'</style>",
            "<img src='data:text/html;base64,eA=='>",
            "<svg><circle r='1'/></svg>",
            '"></iframe><script>parent.alert(1)</script>',
        ],
    )
    def test_html_that_does_something_is_in_a_frame(self, notebook, html):
        shown = show(notebook, "text/html", html)
        assert list(shown) == ["text/html"] and content_of(shown["text/html"]) == html

    @pytest.mark.parametrize(
        "html",
        [
            "<a href='javascript:alert(1)'>x</a>",
            "<a href=' data:text/html,x'>x</a>",
            "<div style='background: url(https://elsewhere.example)'>x</div>",
            "<b data-commandlinker-command='x' class='jp-x' id='x'>x</b>",
            "<!-- <script>alert(1)</script> -->",
        ],
    )
    @pytest.mark.proves("security: hostile output in a notebook or a terminal")
    def test_html_in_the_page_neither_runs_nor_fetches(self, notebook, html):
        shown = show(notebook, "text/html", html)["text/html"]
        for active in ("<script", "alert", "elsewhere", "data", "iframe", "url(", "class", "id="):
            assert active not in shown or "&lt;script" in shown

    def test_pictures_within_html_are_shown(self, notebook):
        html = '<img src="data:image/png;base64,iVBORw0K">'
        assert show(notebook, "text/html", html)["text/html"] == html

    def test_drawings_are_pictures_that_run_nothing(self, notebook):
        shown = show(notebook, "image/svg+xml", "<svg onload='alert(1)'/>")
        assert list(shown) == ["text/html"]
        assert shown["text/html"].startswith('<img src="data:image/svg+xml;base64,')

    def test_scripts_run_in_a_frame(self, notebook):
        shown = show(notebook, "application/javascript", "element.textContent = 1")
        assert list(shown) == ["text/html"]
        assert content_of(shown["text/html"]).endswith("<script>element.textContent = 1</script>")

    def test_what_is_not_shown_is_said(self, notebook):
        for mime in ("application/vnd.holoviews_exec.v0+json", "text/html+x", "application/pdf"):
            shown = show(notebook, mime, "alert(1)")
            assert list(shown) == ["text/plain"] and mime in shown["text/plain"]
        both = notebook.run("display({'text/plain': 'A chart', 'application/vnd.vegalite.v6+json': {}}, raw=True)")
        text = both.of("display_data")[0]["data"]["text/plain"]
        assert text.startswith("A chart\n[application/vnd.vegalite.v6+json: not shown")

    def test_a_widget_that_is_not_there_says_so(self, notebook):
        shown = show(notebook, "application/vnd.jupyter.widget-view+json", {"model_id": "1"})
        assert "not shown, as the notebook does not know the widget" in shown["text/plain"]

    def test_plain_markdown_is_shown_as_such(self, notebook):
        text = "# a < b\n[link](https://elsewhere.example) `x` <https://elsewhere.example>"
        assert show(notebook, "text/markdown", text) == {"text/markdown": text}

    @pytest.mark.parametrize(
        "text",
        [
            "<img src=x onerror=alert(1)>",
            "![](https://elsewhere.example/?secret)",
            "[x](javascript:alert(1))",
            "[x](&#106;ava\\script&colon;alert(1))",
            "$\\href{javascript:alert(1)}{x}$",
        ],
    )
    def test_markdown_with_more_in_it_is_shown_as_text(self, notebook, text):
        assert show(notebook, "text/markdown", text) == {"text/plain": text}

    def test_whoever_trusts_the_sandbox_gets_all_of_it(self, install, own_notebook):
        notebook = own_notebook(install("trusting", "--trust-output"))
        shown = notebook.run(
            "display({'text/html': '<script>1</script>', 'application/javascript': '1'}, raw=True)"
        )
        data = shown.of("display_data")[0]["data"]
        assert data == {"text/html": "<script>1</script>", "application/javascript": "1"}


def show(notebook, mime, value):
    return notebook.run(f"display({{{mime!r}: {value!r}}}, raw=True)").of("display_data")[0]["data"]


class TestResults:
    def test_by_their_numbers(self, notebook):
        first = notebook.run("{'a': 1}").reply["execution_count"]
        notebook.run("%limpet namespace")
        second = notebook.run("'second'").reply["execution_count"]
        assert notebook.run("_").result == "'second'"
        assert notebook.run(f"Out[{first}], Out[{second}], _{first}").result == "({'a': 1}, 'second', {'a': 1})"
        assert notebook.run(f"In[{first}]").result == repr("{'a': 1}")
        assert notebook.run(f"Out[{first}] is _{first}").result == "True"

    def test_names_of_the_cells_are_left_alone(self, own_notebook):
        notebook = own_notebook()
        assert notebook.run("Out = 'mine'\nIn = 2\nOut").result == "'mine'"
        assert notebook.run("Out, In").result == "('mine', 2)"

    def test_they_go_back_with_the_variables(self, own_notebook):
        notebook = own_notebook()
        notebook.run("'kept'")
        notebook.run("%limpet checkpoint here")
        notebook.run("'lost'")
        notebook.run("%limpet rollback here")
        notebook.run("'later'")
        assert notebook.run("sorted(Out)").result == "[1, 5]"

    def test_they_are_kept_after_the_variables_were_lost(self, own_notebook):
        notebook = own_notebook()
        notebook.run("'before'")
        assert notebook.run("import os; os._exit(1)").status == "error"
        notebook.run("'after'")
        assert notebook.run("Out[3]").result == "'after'"
