"""The package as pip installs it."""

import os
import subprocess
import sys
import zipfile

import limpet
import pytest
from fake import ROOT

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
