"""Installing the kernel, and what is wrong with an installation."""

import json
import os
import subprocess
import sys

import pytest

from tests.support import CLIENT

from .conftest import TIMEOUT


def command(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "limpet.jupyter", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )


def installed(prefix, *options):
    done = command("install", "--prefix", str(prefix), *options)
    assert done.returncode == 0, done.stderr
    (directory,) = (prefix / "share" / "jupyter" / "kernels").iterdir()
    assert str(directory) in done.stdout
    return directory, json.loads((directory / "kernel.json").read_text())


def test_the_kernel_is_described(tmp_path):
    directory, spec = installed(tmp_path)
    assert directory.name == "limpet"
    assert spec["argv"] == [sys.executable, "-m", "limpet.jupyter", "-f", "{connection_file}"]
    assert (spec["display_name"], spec["language"], spec["interrupt_mode"]) == ("Limpet", "python", "message")


def test_options_are_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = [
        "--name",
        "two",
        "--session",
        "s1",
        "--memory=512m",
        "--cpus",
        "2",
        "--data",
        "here",
        "--network",
        "a.example,*.b.example:8443",
        "--env",
        "A=b c",
        "--timeout",
        "5",
    ]
    directory, spec = installed(tmp_path, *options)
    assert directory.name == "two" and spec["display_name"] == "Limpet (s1)"
    assert spec["argv"][5:] == [
        "--session=s1", "--timeout=5.0", "--memory=512m", "--cpus=2.0", f"--data={tmp_path}/here",
        "--network=a.example,*.b.example:8443", "--env=A=b c",
    ]  # fmt: skip


def test_options_reach_the_session(install, own_notebook, limpetd):
    notebook = own_notebook(
        install("with-options", "--session", "optioned", "--env", "COLOUR=blue", "--memory", "256m")
    )
    assert notebook.run("import os; os.environ['COLOUR']").result == "'blue'"
    with limpetd.client() as client, client.open("optioned") as session:
        assert session.options["memory"] == 256 * 2**20


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--memroy", "1g"], "unrecognized arguments: --memroy 1g"),
        (["--cpus", "many"], "invalid float value: 'many'"),
        (["--env", "A"], "'A' is not NAME=VALUE"),
        (["--user", "--prefix", "p"], "not allowed with argument"),
    ],
)
def test_wrong_options_are_refused(options, says):
    done = command("install", *options)
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr


def test_a_name_that_is_none_is_refused(tmp_path):
    done = command("install", "--prefix", str(tmp_path), "--name", "a b")
    assert done.returncode == 1 and "a b" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["--memroy=1g"], "--memroy=1g"), (["--cpus=many"], "invalid float value"), (["--env=A"], "NAME=VALUE")],
)
def test_a_kernel_with_wrong_options_says_so_in_its_cells(install, own_notebook, jupyter, arguments, says):
    install("mistaken")
    path = jupyter / "jupyter_data_dir" / "kernels" / "mistaken" / "kernel.json"
    spec = json.loads(path.read_text())
    spec["argv"] += arguments
    path.write_text(json.dumps(spec))
    cell = own_notebook("mistaken").run("1")
    assert cell.of("error")[0]["ename"] == "BadRequest"
    assert says in cell.traceback and "limpet jupyter install" in cell.traceback


def test_a_value_that_the_controller_refuses_is_told_in_the_cell(install, own_notebook):
    notebook = own_notebook(install("unheard-of", "--memory", "plenty"))
    error = notebook.run("1").of("error")[0]
    assert error["ename"] == "BadRequest" and "memory" in error["evalue"]


def test_without_jupyter_it_says_what_to_install(tmp_path):
    (tmp_path / "ipykernel.py").write_text("raise ImportError('No module named ipykernel')")
    done = command("install", PYTHONPATH=os.pathsep.join((str(tmp_path), str(CLIENT))))
    assert done.returncode == 1
    assert "pip install ipykernel nh3" in done.stderr and "Traceback" not in done.stderr


def test_the_client_alone_loads_nothing_of_jupyter():
    code = "import limpet, sys; print([m for m in sys.modules if m.split('.')[0] in ('ipykernel', 'IPython', 'zmq', 'nh3')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_without_arguments_it_says_how_to_use_it():
    done = command()
    assert done.returncode == 2 and "install" in done.stderr
