"""The build backend (PEP 517, PEP 660): zips src/limpet, and limpet._native where it can be compiled.

In the tree, so that `pip install` fetches nothing but msgpack: a build backend from an index would be fetched
into the isolated build environment each time, and machines with sandboxes on them often have no index.

Of the settings that a frontend may hand over, `programs` names a directory with what `cmake --install` made: it becomes
part of the wheel, its bin/ as the wheel's scripts. `platform` is that of the wheel's tag, where that is not this machine's.
`pure` leaves limpet._native out, for a wheel that is the client alone and fits every machine.
"""

import base64
import hashlib
import io
import os
import runpy
import sys
import tarfile
import tempfile
import zipfile

import build_native

_ROOT = os.path.dirname(os.path.abspath(__file__))
_VERSION = os.path.join("limpet", "_version.py")
_LICENSE = "LICENSE"
_SDIST = ("pyproject.toml", "README.md", "build_backend.py", "build_native.py")
_EPOCH = (1980, 1, 1, 0, 0, 0)


def get_requires_for_build_wheel(config_settings=None):
    return [] if sys.version_info >= (3, 11) else ["tomli"]


get_requires_for_build_editable = get_requires_for_build_wheel
get_requires_for_build_sdist = get_requires_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    settings = config_settings or {}
    files = _sources()
    native = None if "pure" in settings else _native()
    if native is not None:
        files[os.path.join("limpet", build_native.FILE)] = native
    if "programs" in settings:
        files.update(_programs(settings["programs"]))
    elif native is None:
        return _write_wheel(wheel_directory, files)
    tag = build_native.tag(native is not None, settings.get("platform"))
    return _write_wheel(wheel_directory, files, tag, pure=False)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _write_wheel(wheel_directory, {"limpet.pth": os.path.join(_ROOT, "src").encode() + b"\n"})


def build_sdist(sdist_directory, config_settings=None):
    project = _project()
    base = _base(project)
    files = {name: _read(name) for name in _SDIST}
    files[_LICENSE] = _license()
    files.update({os.path.join("src", name): data for name, data in _sources().items()})
    files["PKG-INFO"] = _metadata(project)
    with tarfile.open(
        os.path.join(sdist_directory, f"{base}.tar.gz"), "w:gz", format=tarfile.PAX_FORMAT
    ) as tar:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(f"{base}/{name}")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return f"{base}.tar.gz"


def _native():
    """The bytes of limpet._native, or None."""
    with tempfile.TemporaryDirectory(prefix="limpet-native-") as directory:
        path = build_native.build(directory)
        return None if path is None else _read(path)


def _write_wheel(directory, files, tag="py3-none-any", pure=True):
    project = _project()
    base = _base(project)
    info = f"{base}.dist-info"
    files[f"{info}/METADATA"] = _metadata(project)
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: limpet\nRoot-Is-Purelib: {str(pure).lower()}\nTag: {tag}\n".encode()
    )
    files[f"{info}/entry_points.txt"] = _entry_points(project)
    files[f"{info}/licenses/{_LICENSE}"] = _license()
    files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD")
    name = f"{base}-{tag}.whl"
    with zipfile.ZipFile(os.path.join(directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, _EPOCH)
            entry.external_attr = (0o100755 if _is_program(path, data) else 0o100644) << 16
            wheel.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return name


def _programs(directory):
    """What was installed into the directory, by the paths of a wheel: pip puts it below the environment's prefix."""
    data = f"{_base(_project())}.data"
    files = {}
    for name in _files(directory):
        kind, inside = ("scripts", name[len("bin/"):]) if name.startswith("bin/") else ("data", name)
        files[os.path.join(data, kind, inside)] = _read(os.path.join(directory, name))
    return files


def _is_program(path, data):
    return ".data/" in path and data.startswith((b"#!", b"\x7fELF"))


def _record(files, record_path):
    lines = []
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}\n")
    return "".join(lines + [f"{record_path},,\n"]).encode()


def _metadata(project):
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"License-Expression: {project['license']}",
        f"License-File: {_LICENSE}",
        f"Keywords: {','.join(project['keywords'])}",
        *(f"Classifier: {classifier}" for classifier in project["classifiers"]),
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {dependency}" for dependency in project["dependencies"]),
        *_extras(project.get("optional-dependencies", {})),
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines).encode() + b"\n\n" + _read(project["readme"])


def _entry_points(project):
    groups = project.get("entry-points", {}).items()
    return "\n".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items()) for group, points in groups
    ).encode()


def _extras(extras):
    for extra, dependencies in extras.items():
        yield f"Provides-Extra: {extra}"
        yield from (f"Requires-Dist: {dependency} ; extra == '{extra}'" for dependency in dependencies)


def _project():
    if sys.version_info >= (3, 11):
        import tomllib as toml
    else:
        import tomli as toml
    project = toml.loads(_read("pyproject.toml").decode())["project"]
    return {**project, "version": runpy.run_path(os.path.join(_ROOT, "src", _VERSION))["VERSION"]}


def _base(project):
    return f"{project['name']}-{project['version']}"


def _sources():
    """The package; it says its version itself, as there is no CMakeLists.txt around it where it goes."""
    folder = os.path.join(_ROOT, "src")
    files = {
        name: _read(os.path.join(folder, name))
        for name in _files(folder)
        if name.startswith("limpet/") and name.endswith((".py", ".typed", ".html", ".css", ".js", ".svg"))
    }
    files[_VERSION] = f'"""The version."""\n\nVERSION = "{_project()["version"]}"\n'.encode()
    return files


def _files(directory):
    """The paths of all files below it."""
    return [
        os.path.relpath(os.path.join(folder, name), directory)
        for folder, folders, names in sorted(os.walk(directory))
        for name in sorted(names)
    ]


def _license():
    """Of the source tree, or of an unpacked sdist."""
    near = os.path.join(_ROOT, _LICENSE)
    return _read(near if os.path.exists(near) else os.path.join(_ROOT, os.pardir, os.pardir, _LICENSE))


def _read(name):
    with open(os.path.join(_ROOT, name), "rb") as file:
        return file.read()
