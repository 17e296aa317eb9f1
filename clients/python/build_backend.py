"""The build backend (PEP 517, PEP 660): zips src/limpet, and limpet._native where it can be compiled.

In the tree, so that `pip install` fetches nothing but msgpack: a build backend from an index would be fetched
into the isolated build environment each time, and machines with sandboxes on them often have no index.
"""

import base64
import hashlib
import io
import os
import sys
import tarfile
import tempfile
import zipfile

import build_native

_ROOT = os.path.dirname(os.path.abspath(__file__))
_SOURCES = os.path.join("src", "limpet")
_SDIST = ("pyproject.toml", "README.md", "build_backend.py", "build_native.py")
_EPOCH = (1980, 1, 1, 0, 0, 0)


def get_requires_for_build_wheel(config_settings=None):
    return [] if sys.version_info >= (3, 11) else ["tomli"]


get_requires_for_build_editable = get_requires_for_build_wheel
get_requires_for_build_sdist = get_requires_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    files = _sources()
    native = _native()
    if native is None:
        return _write_wheel(wheel_directory, files)
    files[os.path.join("limpet", build_native.FILE)] = native
    return _write_wheel(wheel_directory, files, build_native.tag(), pure=False)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _write_wheel(wheel_directory, {"limpet.pth": os.path.join(_ROOT, "src").encode() + b"\n"})


def build_sdist(sdist_directory, config_settings=None):
    project = _project()
    base = f"{project['name']}-{project['version']}"
    files = {name: _read(name) for name in _SDIST}
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
    base = f"{project['name']}-{project['version']}"
    info = f"{base}.dist-info"
    files[f"{info}/METADATA"] = _metadata(project)
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: limpet\nRoot-Is-Purelib: {str(pure).lower()}\nTag: {tag}\n".encode()
    )
    files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD")
    name = f"{base}-{tag}.whl"
    with zipfile.ZipFile(os.path.join(directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, _EPOCH)
            entry.external_attr = 0o100644 << 16
            wheel.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return name


def _record(files, record_path):
    lines = []
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}\n")
    return "".join(lines + [f"{record_path},,\n"]).encode()


def _metadata(project):
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"License: {project['license']}",
        f"Keywords: {','.join(project['keywords'])}",
        *(f"Classifier: {classifier}" for classifier in project["classifiers"]),
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {dependency}" for dependency in project["dependencies"]),
        *_extras(project.get("optional-dependencies", {})),
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines).encode() + b"\n\n" + _read(project["readme"])


def _extras(extras):
    for extra, dependencies in extras.items():
        yield f"Provides-Extra: {extra}"
        yield from (f"Requires-Dist: {dependency} ; extra == '{extra}'" for dependency in dependencies)


def _project():
    if sys.version_info >= (3, 11):
        import tomllib as toml
    else:
        import tomli as toml
    return toml.loads(_read("pyproject.toml").decode())["project"]


def _sources():
    return {
        os.path.relpath(os.path.join(folder, name), os.path.join(_ROOT, "src")): _read(os.path.join(folder, name))
        for folder, folders, names in sorted(os.walk(os.path.join(_ROOT, _SOURCES)))
        for name in sorted(names)
        if name.endswith((".py", ".typed"))
    }


def _read(name):
    with open(os.path.join(_ROOT, name), "rb") as file:
        return file.read()
