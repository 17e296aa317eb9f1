"""export(): a notebook of the calls that runs again, artifacts with their sums, and what they were made with."""

import hashlib
import json
import os
import subprocess
import sys

import limpet
import pytest


def exported(session, tmp_path):
    made = session.export(tmp_path / "out")
    with open(made["notebook"]) as file:
        notebook = json.load(file)
    with open(made["lock"]) as file:
        return notebook["cells"], made, json.load(file)


def sources(cells, kind="code"):
    return [cell["source"] for cell in cells if cell["cell_type"] == kind]


def test_the_calls_with_their_outputs(session, tmp_path):
    session.run("import sys\nx = 1\nprint('ü'); print('err', file=sys.stderr)").check()
    session.run("x + 1").check()
    session.run("display({'a': 1}); 1 / 0")
    session.run("from IPython.display import HTML; HTML('<b>x</b>')").check()
    cells, made, lock = exported(session, tmp_path)
    assert [cell["execution_count"] for cell in cells] == [1, 2, 3, 4] and len({cell["id"] for cell in cells}) == 4
    assert cells[0]["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "ü\n"}, {"output_type": "stream", "name": "stderr", "text": "err\n"}]
    assert cells[1]["outputs"] == [{"output_type": "execute_result", "data": {"text/plain": "2"}, "metadata": {}, "execution_count": 2}]
    assert [output["output_type"] for output in cells[2]["outputs"]] == ["display_data", "error"]
    assert cells[2]["metadata"]["tags"] == ["raises-exception"] and cells[2]["outputs"][1]["ename"] == "ZeroDivisionError"
    assert cells[3]["outputs"][0]["data"]["text/html"] == "<b>x</b>"
    assert lock["session"] == session.name and lock["python"].startswith("3.") and "cloudpickle" in lock["packages"]
    assert made["artifacts"] == [] and os.listdir(tmp_path / "out" / "artifacts") == []


def test_code_cells_run_again(client, name, tmp_path):
    with client.open(name, checkpoint="always") as session:
        check_code_cells_run_again(session, tmp_path)


def check_code_cells_run_again(session, tmp_path):
    session.run("x = [1]").check()
    session.run("import os; os._exit(3)")
    session.run("x.append(2)").check()
    session.run("1 / 0")
    session.run("import time; time.sleep(60)", timeout=0.2)
    session.exec("echo y > file").check()
    result = session.run("x, open('file').read()").check().result
    cells, _, _ = exported(session, tmp_path)
    assert sources(cells, "raw") == ["import os; os._exit(3)", "import time; time.sleep(60)"]
    assert sources(cells)[3] == "!echo y > file"
    program = ["import os, subprocess"]
    for cell in cells:
        if cell["cell_type"] == "code":
            source = f"subprocess.run({cell['source'][1:]!r}, shell=True, check=True)" if cell["source"].startswith("!") else cell["source"]
            program.append(f"try:\n    {source}\nexcept ZeroDivisionError:\n    pass" if "raises-exception" in cell["metadata"].get("tags", ()) else source)
    done = subprocess.run([sys.executable, "-c", "\n".join(program[:-1] + [f"print(repr(({program[-1]})))"])], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == result


def test_what_was_undone_is_not_run_again(session, tmp_path):
    session.run("x = 1").check()
    kept = session.checkpoint()
    session.run("x = 2").check()
    session.rollback(kept)
    session.run("x").check()
    first, _ = session.try_each(["y = 'a'", "y = 'b'"])
    assert first.ok
    session.commit(1)
    session.run("x, y").check()
    session.run("z = 1", on_error="rollback").check()
    session.run("z = 2; 1 / 0", on_error="rollback")
    cells, _, _ = exported(session, tmp_path)
    assert sources(cells) == ["x = 1", "x", "y = 'b'", "x, y", "z = 1"]
    assert sources(cells, "raw") == ["x = 2", "z = 2; 1 / 0"]
    session.reset()
    session.run("new = 1").check()
    cells, _, _ = exported(session, tmp_path)
    assert sources(cells) == ["new = 1"]


def test_artifacts_are_as_the_last_call_made_them(session, tmp_path):
    session.run("import os; os.makedirs('artifacts/d'); open('artifacts/d/a', 'w').write('1'); open('artifacts/b', 'w').write('2')").check()
    second = session.run("open('artifacts/b', 'w').write('33')").check()
    cells, made, lock = exported(session, tmp_path)
    b, a = made["artifacts"]
    assert (b["path"], b["size"], b["execution_count"], b["run_id"]) == ("/session/artifacts/b", 2, 2, second.run_id)
    assert (a["path"], a["execution_count"]) == ("/session/artifacts/d/a", 1)
    for artifact, text in ((a, "1"), (b, "33")):
        with open(artifact["file"]) as file:
            assert file.read() == text
        assert artifact["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert cells[0]["metadata"]["limpet"]["artifacts"] == ["/session/artifacts/b", "/session/artifacts/d/a"]
    assert lock["artifacts"] == made["artifacts"]


def test_a_branch_has_no_notebook_of_its_own(session, tmp_path):
    session.run("x = 1")
    with pytest.raises(limpet.BadRequest, match="its session"):
        session.branch("b").export(tmp_path)


def test_a_new_controller_knows_the_calls(own_limpetd, name, tmp_path):
    own_limpetd.start()
    with own_limpetd.client(reconnect_timeout=60) as client:
        session = client.open(name)
        session.run("x = 1").check()
        own_limpetd.kill()
        own_limpetd.start()
        session.run("x + 1").check()
        cells, _, _ = exported(session, tmp_path)
        assert sources(cells) == ["x = 1", "x + 1"]
        session.close()
        state = os.path.join(own_limpetd.directory, "state", "journals")
        assert [each for each in os.listdir(state) if name in each] == []


def test_other_languages_and_branches(session, tmp_path):
    session.run("x = 1").check()
    session.run("echo hi", language="bash").check()
    session.branch("b").run("y = 1").check()
    session.exec(["echo", "a b"]).check()
    cells, _, _ = exported(session, tmp_path)
    assert sources(cells) == ["x = 1", "%%bash\necho hi", "!echo 'a b'"]
    assert cells[1]["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "hi\n"}]
    assert cells[2]["metadata"]["limpet"]["kind"] == "command"


def test_values_from_outside_are_named_and_those_that_were_read_left_out(session, tmp_path, limpetd):
    session.set("x", 41)
    session.run("y = x + 1").check()
    assert [session.value("y") for _ in range(3)] == [42, 42, 42]
    session.set("large", b"x" * (1 << 20))
    assert session.value("large") == b"x" * (1 << 20)
    cells, _, _ = exported(session, tmp_path)
    assert sources(cells) == ["y = x + 1"]
    assert [source.partition("\n")[0] for source in sources(cells, "raw")] == ["# limpet.set: x", "# limpet.set: large"]
    command = [os.path.join(os.environ["LIMPET_BUILD"], "limpet"), "export", session.name, tmp_path / "c"]
    subprocess.run(command, env=os.environ | {"LIMPET_SOCKET": limpetd.socket, "LIMPET_PYTHON": sys.executable}, check=True, capture_output=True)
    assert json.loads((tmp_path / "c" / "notebook.ipynb").read_text())["cells"] == cells


def test_what_values_take_of_the_history_is_small(session):
    """The text of what reads and writes them travels once in the life of an interpreter."""
    session.set("x", 1)
    session.value("x")
    session.value("x")
    sizes = [len(call.code) for call in session._history().calls]
    assert sizes[0] > 5000 and max(sizes[1:]) < 300
    session.reset()
    session.set("x", 2)
    assert session.value("x") == 2
    assert [len(call.code) > 5000 for call in session._history().calls] == [True, False, False, False, True, False]


def test_an_expression_is_evaluated_once(client, session):
    """Also where the interpreter is another one, which has no way to write values yet."""
    session.set("seen", [])
    other = client.attach(session.name)
    other.reset()
    other.run("seen = []").check()
    assert session.value("seen.append(1) or len(seen)") == 1 and session.value("len(seen)") == 1
