"""Whole notebooks, by the programs that run them."""

import nbclient
import nbformat
import pytest


def notebook_of(*cells):
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])


def test_nbclient_runs_a_notebook(install):
    notebook = notebook_of(
        "x = 20", "print('hi')\nx * 2 + 2", "display({'image/png': b'p'}, raw=True)", "!echo shell"
    )
    nbclient.NotebookClient(notebook, kernel_name="limpet", timeout=60).execute()
    outputs = [cell.outputs for cell in notebook.cells]
    assert [output.output_type for output in outputs[1]] == ["stream", "execute_result"]
    assert outputs[1][1].data["text/plain"] == "42"
    assert outputs[2][0].data["image/png"].strip() == "cA=="
    assert outputs[3][0].text == "shell\n"
    assert [cell.execution_count for cell in notebook.cells] == [1, 2, 3, 4]
    nbformat.validate(notebook)


def test_nbclient_reports_the_error_of_a_cell(install):
    notebook = notebook_of("1 / 0", "x = 1")
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="ZeroDivisionError"):
        nbclient.NotebookClient(notebook, kernel_name="limpet", timeout=60).execute()


def test_a_cell_over_its_time_is_interrupted_and_the_variables_are_kept(install):
    notebook = notebook_of("x = 1", "while True: pass", "x + 1")
    client = nbclient.NotebookClient(
        notebook,
        kernel_name="limpet",
        timeout_func=lambda cell: 2 if "while" in cell.source else 60,
        interrupt_on_timeout=True,
        allow_errors=True,
    )
    client.execute()
    assert {"KeyboardInterrupt", "Interrupted"} & {output.get("ename") for output in notebook.cells[1].outputs}
    assert notebook.cells[2].outputs[0].data["text/plain"] == "2"


def test_updates_reach_the_cell_that_showed_the_display(install):
    notebook = notebook_of("handle = display('before', display_id=True)", "handle.update('after')")
    nbclient.NotebookClient(notebook, kernel_name="limpet", timeout=60).execute()
    assert notebook.cells[0].outputs[0].data["text/plain"] == "'after'"


def test_papermill_sets_parameters(install, tmp_path):
    import papermill

    source, done = tmp_path / "in.ipynb", tmp_path / "out.ipynb"
    notebook = notebook_of("size = 1", "size + 1")
    notebook.cells[0].metadata["tags"] = ["parameters"]
    notebook.metadata["kernelspec"] = {"name": "limpet", "display_name": "Limpet", "language": "python"}
    nbformat.write(notebook, source)
    papermill.execute_notebook(str(source), str(done), parameters={"size": 41}, progress_bar=False)
    assert nbformat.read(done, 4).cells[-1].outputs[0].data["text/plain"] == "42"
