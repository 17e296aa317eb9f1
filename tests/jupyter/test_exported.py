"""What export() writes is a notebook, and runs again by the program that runs notebooks."""

import nbclient
import nbformat


def kinds(notebook):
    """Of the outputs, but for what the kernel says of its engine."""
    return [
        [output.output_type for output in cell.get("outputs", ()) if output.get("name") != "stderr"]
        for cell in notebook.cells
    ]


def test_an_exported_notebook_runs_again(install, limpetd, tmp_path):
    with limpetd.client() as client, client.open("exported", checkpoint="always") as session:
        session.run("x = [1]\nprint('a'); x").check()
        session.run("import os; os._exit(1)")
        session.run("1 / 0")
        session.exec("echo shell").check()
        session.run("display({'image/png': b'p'}, raw=True)").check()
        session.run("x.append(2); x").check()
        made = session.export(tmp_path)
    notebook = nbformat.read(made["notebook"], as_version=4)
    nbformat.validate(notebook)
    before = kinds(notebook)
    nbclient.NotebookClient(notebook, kernel_name="limpet", timeout=60).execute()
    assert [cell.cell_type for cell in notebook.cells] == ["code", "raw", "code", "code", "code", "code"]
    assert kinds(notebook) == before
    assert notebook.cells[3].outputs[0].text == "shell\n"
    assert notebook.cells[5].outputs[0].data["text/plain"] == "[1, 2]"
