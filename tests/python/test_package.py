"""The package as pip installs it."""

import os
import re
import subprocess
import sys
import tarfile
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


def cmake_version():
    with open(os.path.join(ROOT, "CMakeLists.txt")) as file:
        return re.search(r"^project\(limpet VERSION (\d+\.\d+\.\d+) ", file.read(), re.M)[1]


@NEEDS_TOMLLIB
def test_the_version_is_that_of_the_project(backend):
    assert backend._project()["version"] == limpet.__version__ == cmake_version()


def test_entries_of_the_changelog_have_dates_and_the_newest_is_of_that_version():
    with open(os.path.join(ROOT, "CHANGELOG.md")) as file:
        entries = re.findall(r"^## (.*)$", file.read(), re.M)
    date = r"20\d\d-[01]\d-[0-3]\d"
    assert re.fullmatch(rf"{re.escape(cmake_version())}( \({date}\)|, not released yet \(since {date}\))", entries[0])
    assert all(re.fullmatch(rf"\d+\.\d+\.\d+ \({date}\)", entry) for entry in entries[1:])


@NEEDS_TOMLLIB
@pytest.mark.long
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_what_is_built_knows_its_version_and_has_the_licence(backend, tmp_path, kind):
    """Also where no source tree is around it: an sdist builds the same wheel without the C sources."""
    if kind == "sdist":
        with tarfile.open(tmp_path / backend.build_sdist(str(tmp_path))) as archive:
            archive.extractall(tmp_path)
        project = tmp_path / f"limpet-{limpet.__version__}"
        build = "import build_backend, sys; print(build_backend.build_wheel(sys.argv[1]))"
        command = [sys.executable, "-c", build, str(tmp_path)]
        name = subprocess.run(command, cwd=project, check=True, capture_output=True, text=True).stdout.strip()
    else:
        name = backend.build_wheel(str(tmp_path))
    with zipfile.ZipFile(tmp_path / name) as wheel:
        wheel.extractall(tmp_path / "installed")
    info = tmp_path / "installed" / f"limpet-{limpet.__version__}.dist-info"
    with open(os.path.join(ROOT, "LICENSE")) as licence:
        assert (info / "licenses" / "LICENSE").read_text() == licence.read()
    assert f"\nVersion: {limpet.__version__}\n" in (info / "METADATA").read_text()
    said = subprocess.run(
        [sys.executable, "-c", "import limpet; print(limpet.__version__)"],
        env={"PYTHONPATH": str(tmp_path / "installed")}, cwd=tmp_path, check=True, capture_output=True, text=True,
    ).stdout
    assert said.strip() == limpet.__version__


@pytest.mark.long
@NEEDS_TOMLLIB
def test_programs_go_where_pip_finds_them(backend, tmp_path):
    for name, text in (("bin/limpet", "#!/bin/sh\n"), ("share/man/man1/limpet.1", ".TH\n")):
        (tmp_path / "made" / name).parent.mkdir(parents=True)
        (tmp_path / "made" / name).write_text(text)
    settings = {"programs": str(tmp_path / "made"), "platform": "manylinux_2_36_x86_64"}
    name = backend.build_wheel(str(tmp_path), settings)
    assert name == f"limpet-{limpet.__version__}-cp310-abi3-manylinux_2_36_x86_64.whl"
    data = f"limpet-{limpet.__version__}.data"
    with zipfile.ZipFile(tmp_path / name) as wheel:
        modes = {entry.filename: entry.external_attr >> 16 & 0o777 for entry in wheel.infolist()}
    assert modes[f"{data}/scripts/limpet"] == 0o755
    assert modes[f"{data}/data/share/man/man1/limpet.1"] == 0o644
    assert modes["limpet/__init__.py"] == 0o644


@pytest.mark.long
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


@pytest.mark.long
@NEEDS_TOMLLIB
def test_a_wheel_has_the_extension_module_where_it_can_be_compiled(backend, tmp_path):
    name = backend.build_wheel(str(tmp_path))
    assert "-cp310-abi3-linux_" in name
    with zipfile.ZipFile(tmp_path / name) as wheel:
        (tmp_path / "module.so").write_bytes(wheel.read("limpet/_native.abi3.so"))
        assert b"Root-Is-Purelib: false" in wheel.read(f"limpet-{limpet.__version__}.dist-info/WHEEL")
    assert chosen(LIMPET_NATIVE=str(tmp_path / "module.so")) == "True"


@NEEDS_TOMLLIB
def test_a_wheel_of_the_client_alone_fits_every_machine(backend, tmp_path):
    name = backend.build_wheel(str(tmp_path), {"pure": True})
    assert name == f"limpet-{limpet.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(tmp_path / name) as wheel:
        assert not [file for file in wheel.namelist() if file.endswith(".so") or ".data/" in file]


@NEEDS_TOMLLIB
def test_messages_name_the_packages_of_the_extras_and_no_package_of_this_name(backend):
    """The name `limpet` is nobody's on the index: `pip install limpet` could bring anything."""
    said = "".join(data.decode() for name, data in backend._sources().items() if name.endswith(".py"))
    assert not re.search(r"pip install '?limpet\b", said)
    extras = backend._project()["optional-dependencies"]
    for extra in ("deepagents", "inspect-ai", "llm-sandbox", "mcp", "net", "openai-agents", "pydantic-ai", "smolagents"):
        assert f"pip install '{extras[extra][0]}'" in said


@NEEDS_TOMLLIB
def test_a_wheel_is_all_python_where_there_is_no_compiler(backend, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CC", str(tmp_path / "none"))
    assert backend.build_wheel(str(tmp_path)) == f"limpet-{limpet.__version__}-py3-none-any.whl"
    assert "a C compiler" in capsys.readouterr().err


def chosen(**environment):
    """What limpet says of the module it has taken, or the last line of what it fails with."""
    environment = {**os.environ, "PYTHONPATH": os.path.join(PROJECT, "src"), **environment}
    command = [sys.executable, "-c", "from limpet._connection import _transport; print(_transport.NATIVE)"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    return (done.stdout or done.stderr).strip().splitlines()[-1]


def test_the_environment_chooses_the_extension_module_or_python(tmp_path):
    assert chosen(LIMPET_NATIVE="0") == "False"
    assert "none.so" in chosen(LIMPET_NATIVE=str(tmp_path / "none.so"))


@pytest.mark.long
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
