"""What VS Code asks for its Variables view: it runs code of its own between the cells."""

import json

DESCRIBE = """\
def _describe(names):
    import json
    print(json.dumps([{"name": name, "type": type(globals()[name]).__name__} for name in names]))

_names = %who_ls
_describe(_names)

try:
    del _describe
    del _names
except:
    pass
"""
IN_BACKGROUND = """\
def __jupyter_exec_background__():
    from IPython.display import display
    from threading import Thread
    from traceback import format_exc

    # First send a dummy response to get the display id.
    output = display({"application/vnd.vscode.bg.execution.0": ""}, raw=True, display_id=True)

    def do_implementation():
        import json, time
        time.sleep(0.3)
        variables= %who_ls
        return json.dumps([name for name in variables if name in globals()])

    def bg_main():
        try:
            output.update({"application/vnd.vscode.bg.execution.0.result": do_implementation()}, raw=True)
        except Exception as e:
            output.update({"application/vnd.vscode.bg.execution.0.error": format_exc()}, raw=True)


    Thread(target=bg_main, daemon=True).start()


__jupyter_exec_background__()
del __jupyter_exec_background__"""


def test_names_and_types(notebook):
    notebook.run("seen_by_vscode = {'a': 1}")
    cell = notebook.run(DESCRIBE, store_history=False)
    assert {"name": "seen_by_vscode", "type": "dict"} in json.loads(cell.stdout)
    assert notebook.run("[name for name in globals() if name in ('_describe', '_names')]").result == "[]"


def test_an_answer_of_a_thread(notebook):
    notebook.run("seen_in_background = 1")
    cell = notebook.run(IN_BACKGROUND, store_history=False)
    (begun,) = cell.of("display_data")
    (answer,) = cell.of("update_display_data")
    assert begun["data"] == {"application/vnd.vscode.bg.execution.0": ""}
    assert begun["transient"] == answer["transient"]
    assert "seen_in_background" in json.loads(answer["data"]["application/vnd.vscode.bg.execution.0.result"])


def test_no_cell_counts_for_it(notebook):
    before = notebook.run("'before'").reply["execution_count"]
    notebook.run(DESCRIBE, store_history=False)
    notebook.run("'not a cell'", store_history=False)
    after = notebook.run(f"Out[{before}]")
    assert after.reply["execution_count"] == before + 1 and after.result == "'before'"
    assert notebook.ask("history", raw=True, output=False, hist_access_type="tail", n=2)["history"][0][2] == "'before'"
