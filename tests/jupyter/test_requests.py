"""What frontends ask besides running cells."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest


def complete(notebook, code, cursor=None):
    answer = notebook.ask("complete", code, cursor)
    return answer["matches"], (answer["cursor_start"], answer["cursor_end"])


def test_names_of_the_session_complete_without_a_call(notebook, limpetd):
    notebook.run("completing_this = 1")
    calls = sum(row.execution_count for row in limpetd.sessions().values())
    assert complete(notebook, "x = completing_t") == (["completing_this"], (4, 16))
    assert complete(notebook, "first\ncompleting_t(1)", 18) == (["completing_this"], (6, 18))
    assert "return" in complete(notebook, "retu")[0] and "sorted" in complete(notebook, "sor")[0]
    assert sum(row.execution_count for row in limpetd.sessions().values()) == calls


def test_attributes_complete_from_the_live_object_and_leave_nothing(notebook):
    notebook.run("class Thing: first_attribute = second = 1\nthing = Thing()")
    assert complete(notebook, "print(thing.fir") == (["thing.first_attribute"], (6, 15))
    assert "thing.second" in complete(notebook, "thing.")[0]
    assert complete(notebook, "Thing().fir")[0] == ["first_attribute"]
    before = notebook.run("sorted(globals())").result
    complete(notebook, "thing.s")
    assert notebook.run("sorted(globals())").result == before


def matches(notebook, code, cursor=None):
    return complete(notebook, code, cursor)[0]


def test_names_of_the_same_cell(notebook):
    """What it would import or make, though nothing of it has run."""
    assert "quite_new_name" in matches(notebook, "quite_new_name = 1\nprint(quite_n")
    assert complete(notebook, "import os as unrun\nunrun.getcw") == (["getcwd", "getcwdb"], (25, 30))
    assert "dirname" in matches(notebook, "%%time\nimport os.path as unrun_path\nunrun_path.dirn")
    assert "getcwd" in matches(notebook, "from os import getc")
    assert "returncode" in matches(notebook, "import subprocess\ndone = subprocess.run([])\nif done.retu")


def test_behind_a_call_and_an_index(notebook):
    notebook.run("ran = []\nclass Made:\n    quality = 1\ndef make() -> Made: ran.append(1)\ntexts = ['a']")
    assert "quality" in matches(notebook, "make().qual")
    assert "upper" in matches(notebook, "texts[0].upp")
    assert "splitlines" in matches(notebook, "''.join(texts).splitl")
    assert notebook.run("ran").result == "[]"


def test_what_the_completer_needs_is_imported_when_it_is_needed(notebook, own_notebook):
    notebook = own_notebook()
    loaded = "import sys\n'jedi' in sys.modules, sys.getrecursionlimit()"
    before = notebook.run(loaded).result
    matches(notebook, "loa")
    assert notebook.run(loaded).result == before and before.startswith("(False")
    assert matches(notebook, "''.upp")
    assert notebook.run(loaded).result == before.replace("False", "True")


def test_keys(notebook):
    notebook.run("""class Columns:
    columns = ['first', 'second']
class Own(dict):
    def _ipython_key_completions_(self): return ['given', 3]
held = {'some key': {'inner': 1}, 'sole': 2, 3: 4, "it's": 5}
table, own, wrapped = Columns(), Own(), [held]""")
    assert complete(notebook, "held['so") == (["some key']", "sole']"], (6, 8))
    assert complete(notebook, 'held["so"]', 8) == (["some key", "sole"], (6, 8))
    assert matches(notebook, 'x = held["') == ['some key"]', 'sole"]', 'it\'s"]']
    assert matches(notebook, "held['it") == []
    assert matches(notebook, 'wrapped[0]["some key"]["') == ['inner"]']
    assert matches(notebook, 'table["f') == ['first"]']
    assert matches(notebook, 'own["') == ['given"]']
    assert matches(notebook, 'no_such_name["') == []


def test_no_code_runs_for_the_keys_of_what_is_in_an_object(notebook):
    notebook.run("got = []\nclass Loud(dict):\n    def __getitem__(self, key): got.append(key)\nloud = Loud()")
    assert matches(notebook, 'loud["a"]["') == []
    assert notebook.run("got").result == "[]"


def test_paths(notebook):
    notebook.run("import os\nos.makedirs('completed/deep')\nopen('completed/file.csv', 'w').close()\nopen('completed/.dot', 'w').close()")
    assert complete(notebook, "open('completed/fi") == (["file.csv"], (16, 18))
    assert matches(notebook, "x = 'a', 'comple") == ["completed/"]
    assert matches(notebook, "open('completed/') # later", 16) == ["deep/", "file.csv"]
    assert matches(notebook, "open('completed/.") == [".dot"]
    assert matches(notebook, "!cat completed/f") == matches(notebook, "%run completed/f") == ["file.csv"]
    assert matches(notebook, "open('no/such/") == []


def test_commands(notebook):
    assert matches(notebook, "%who") == ["%who", "%who_ls", "%whos"]
    assert "%%writefile" in matches(notebook, "%%wri") and "%limpet" in matches(notebook, "x = 1\n%l")


def test_what_is_asked_for_leaves_the_last_result_alone(notebook):
    notebook.run("'the last one'")
    matches(notebook, "''.upp")
    notebook.ask("inspect", "len", 3)
    assert notebook.run("_").result == "'the last one'"


def test_the_count_that_people_see_does_not_move(notebook):
    before = notebook.run("counted = []").reply["execution_count"]
    complete(notebook, "counted.app")
    assert notebook.run("1").reply["execution_count"] == before + 1


def test_nobody_waits_for_what_others_run(install, own_notebook, limpetd, tmp_path):
    notebook = own_notebook(install("busy", "--session", "busy"))
    notebook.run("mine = 'x'")
    go = tmp_path / "go"
    with limpetd.client() as client, ThreadPoolExecutor() as pool:
        code = f"import os, time\nprint('runs', flush=True)\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)"
        runs = threading.Event()
        call = pool.submit(client.open("busy").run, code, on_stdout=lambda text: runs.set())
        assert runs.wait(60)
        for text in ("mine.upp", "min"):
            assert "mine" not in complete(notebook, text)[0] and not call.done()
        go.touch()
        assert call.result().status == "ok"
    assert complete(notebook, "mine.upp")[0] == ["mine.upper"]


def pages(cell):
    return [payload["data"]["text/plain"] for payload in cell.reply["payload"] if payload["source"] == "page"]


def test_a_question_mark_opens_the_pager(notebook):
    cell = notebook.run("len?")
    assert cell.shown == [] and "Return the number of items" in pages(cell)[0]
    assert "not found" in notebook.run("?no_such_name").stdout
    assert "sorted" in pages(notebook.run("sor*d?"))[0]


def test_a_question_among_other_code(notebook):
    cell = notebook.run("asked_among = 'a text'\nasked_among?\nprint('runs')\nlen(asked_among)")
    assert (cell.stdout, cell.result) == ("runs\n", "6") and "a text" in pages(cell)[0]


def test_nothing_is_run_that_was_not_written_as_a_name(notebook):
    notebook.run("calls = []\ndef bad(): calls.append(1); return ''")
    for code in ("bad().", "bad()[0].x", "''.join(bad()).sp"):
        complete(notebook, code)
        notebook.ask("inspect", code)
    assert notebook.run("calls").result == "[]"


def test_an_object_that_lies_harms_nobody(notebook):
    notebook.run("class Liar:\n  def __dir__(self): return [1, None, 'é' * 10**6]\nliar = Liar()")
    complete(notebook, "liar.")
    notebook.run("class Hang:\n  def __dir__(self):\n    while True: pass\nhang = Hang()")
    assert complete(notebook, "hang.")[0] == []
    assert notebook.run("1").result == "1"


def test_inspection_tells_type_signature_and_documentation(notebook):
    notebook.run("def documented(a, b=2):\n    'Says what it does.'\nlist_of_three = [1, 2, 3]")
    text = notebook.ask("inspect", "documented(", 11)["data"]["text/plain"]
    assert "documented(a, b=2)" in text and "Says what it does." in text
    text = notebook.ask("inspect", "y = list_of_three", 9)["data"]["text/plain"]
    assert "list" in text and "[1, 2, 3]" in text
    assert notebook.ask("inspect", "no_such_name")["found"] is False


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("a = 1", "complete"),
        ("for x in y:", "incomplete"),
        ("a = = 1", "invalid"),
        ("!ls", "complete"),
        ("%limpet", "complete"),
    ],
)
def test_whether_code_is_complete(notebook, code, status):
    assert notebook.ask("is_complete", code)["status"] == status


def test_comms_are_closed_at_once(notebook):
    message = notebook.client.session.msg(
        "comm_open", {"comm_id": "c1", "target_name": "jupyter.widget", "data": {}}
    )
    notebook.client.shell_channel.send(message)
    request = message["header"]["msg_id"]
    messages = notebook.until(request, lambda message: message["content"].get("execution_state") == "idle")
    assert [m["content"]["comm_id"] for m in messages if m["msg_type"] == "comm_close"] == ["c1"]
    assert notebook.ask("comm_info")["comms"] == {}


def test_history_has_code_and_results(notebook):
    count = notebook.run("'remember me'").reply["execution_count"]
    tail = notebook.ask("history", raw=True, output=True, hist_access_type="tail", n=1)["history"]
    assert tail == [[1, count, ["'remember me'", "'remember me'"]]]
