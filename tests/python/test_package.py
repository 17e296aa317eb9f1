"""The package as pip installs it."""

import os
import subprocess
import sys
import zipfile

import limpet
import pytest

from tests.support import ROOT

NEEDS_TOMLLIB = pytest.mark.skipif(sys.version_info < (3, 11), reason="reads pyproject.toml with tomllib")
PROJECT = os.path.join(ROOT, "clients", "python")


@pytest.fixture
def backend(monkeypatch):
    monkeypatch.syspath_prepend(PROJECT)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    import build_backend

    return build_backend


@NEEDS_TOMLLIB
def test_the_version_is_one(backend):
    assert backend._project()["version"] == limpet.__version__


@pytest.mark.slow
@NEEDS_TOMLLIB
def test_a_wheel_is_complete_and_the_same_each_time(backend, tmp_path):
    (tmp_path / "again").mkdir()
    name = backend.build_wheel(str(tmp_path))
    assert backend.build_wheel(str(tmp_path / "again")) == name
    assert (tmp_path / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    with zipfile.ZipFile(tmp_path / name) as wheel:
        names = set(wheel.namelist())
    sources = os.path.join(PROJECT, "src")
    assert names >= {
        os.path.relpath(os.path.join(folder, name), sources)
        for folder, _, files in os.walk(os.path.join(sources, "limpet"))
        for name in files
        if name.endswith(".py")
    }
    assert "limpet/py.typed" in names


@pytest.mark.slow
@NEEDS_TOMLLIB
def test_a_wheel_has_the_extension_module_where_it_can_be_compiled(backend, tmp_path):
    name = backend.build_wheel(str(tmp_path))
    assert "-cp310-abi3-linux_" in name
    with zipfile.ZipFile(tmp_path / name) as wheel:
        (tmp_path / "module.so").write_bytes(wheel.read("limpet/_native.abi3.so"))
        assert b"Root-Is-Purelib: false" in wheel.read(f"limpet-{limpet.__version__}.dist-info/WHEEL")
    assert chosen(LIMPET_NATIVE=str(tmp_path / "module.so")) == "True"


@NEEDS_TOMLLIB
def test_a_wheel_is_all_python_where_there_is_no_compiler(backend, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CC", str(tmp_path / "none"))
    assert backend.build_wheel(str(tmp_path)) == f"limpet-{limpet.__version__}-py3-none-any.whl"
    assert "a C compiler" in capsys.readouterr().err


def chosen(**environment):
    """What limpet says of the module it has taken, or the last line of what it fails with."""
    environment = {**os.environ, "PYTHONPATH": os.path.join(PROJECT, "src"), **environment}
    command = [sys.executable, "-c", "from limpet import _transport; print(_transport.NATIVE)"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    return (done.stdout or done.stderr).strip().splitlines()[-1]


def test_the_environment_chooses_the_extension_module_or_python(tmp_path):
    assert chosen(LIMPET_NATIVE="0") == "False"
    assert "none.so" in chosen(LIMPET_NATIVE=str(tmp_path / "none.so"))


@pytest.mark.slow
@NEEDS_TOMLLIB
def test_pip_installs_it_without_an_index_but_for_msgpack(tmp_path):
    def run(*command, cwd=None):
        return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout

    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--no-index", "--no-deps", PROJECT)
    run(python, "-m", "pip", "install", "msgpack>=1.0.3")
    run(python, "-m", "pip", "check")
    code = (
        "import limpet, importlib.metadata as m\n"
        "print(limpet.__file__, m.version('limpet'), m.requires('limpet'))"
    )
    said = run(python, "-c", code, cwd=tmp_path)
    assert said.startswith(str(tmp_path / "venv")) and limpet.__version__ in said and "msgpack" in said
