"""The images of the cluster's pods, out of what is on this machine: no registry is asked.

usage: python -m tests.kubernetes.cluster.images SANDBOX DIRECTORY

Writes archives as of `docker save` into DIRECTORY: `sandbox`, of the rootfs SANDBOX that `limpet image build` has made; `limpet`, for
controllers and gateways, of the build that has LIMPET_BUILD, of this Python with its packages, and of the client of this tree; and
`pause`, which holds the namespaces of a pod.
"""

import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile

TREE = pathlib.Path(__file__).parents[3]
PROGRAMS = ["bin/limpet", "bin/limpetd", "libexec/limpet-net", "lib/limpet/limpet-guest", "lib/limpet/limpet-interpreter.so"]
PAUSE = "#include <signal.h>\n#include <unistd.h>\nint main(void) { signal(SIGTERM, _exit); for (;;) pause(); }\n"


def libraries(programs):
    """Those that programs are linked with, the loader too, by their paths on this machine."""
    said = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=True).stdout
    return sorted(set(re.findall(r"^\s(?:.* => )?(/\S+) \(", said, re.M)))


def add(layer, path, name=None):
    layer.add(os.path.realpath(path), name or str(path), filter=without_caches)


def without_caches(member):
    return None if member.name.endswith("__pycache__") else member


def file(archive, name, data):
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def limpet(layer):
    standard, packages = sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")
    there = f"/usr/local/lib/python{sysconfig.get_python_version()}/dist-packages"
    linked = [sys.executable, *(str(path) for place in (standard, packages) for path in pathlib.Path(place).rglob("*.so"))]
    with tempfile.TemporaryDirectory() as installed:
        build = pathlib.Path(os.environ.get("LIMPET_BUILD", TREE / "build/bin")).parent
        subprocess.run(
            ["cmake", "--install", build, "--prefix", "/usr"], env={**os.environ, "DESTDIR": installed}, stdout=subprocess.DEVNULL, check=True
        )
        add(layer, f"{installed}/usr", "/usr")
        linked += [f"{installed}/usr/{program}" for program in PROGRAMS]
        for library in libraries(linked):
            if not library.startswith((standard, packages)):
                add(layer, library)
    add(layer, sys.executable, "/usr/bin/python3")
    add(layer, sys.executable, f"/usr/bin/python{sysconfig.get_python_version()}")  # of the engine local, as is env
    add(layer, "/usr/bin/env")
    add(layer, standard)
    add(layer, packages, there)
    for part in ("CMakeLists.txt", "clients/python/src/limpet"):
        add(layer, TREE / part, f"/src/{part}")
    file(layer, f"{there}/limpet.pth", b"/src/clients/python/src\n")
    temporary = tarfile.TarInfo("/tmp")
    temporary.type, temporary.mode = tarfile.DIRTYPE, 0o1777
    layer.addfile(temporary)


def pause(layer):
    with tempfile.TemporaryDirectory() as place:
        program = pathlib.Path(place, "pause")
        subprocess.run(["cc", "-static", "-x", "c", "-", "-o", program], input=PAUSE, text=True, check=True)
        add(layer, program, "/pause")


def write(path, entrypoint, fill):
    """An image of one layer."""
    with tempfile.TemporaryFile(dir=path.parent) as blob:
        with tarfile.open(fileobj=blob, mode="w|", format=tarfile.PAX_FORMAT) as layer:
            fill(layer)
        blob.seek(0)
        digest = hashlib.file_digest(blob, "sha256").hexdigest()
        config = {
            "architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
            "config": {"Entrypoint": entrypoint, "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]},
        }  # fmt: skip
        index = [{"Config": "config.json", "RepoTags": [f"limpet.test/{path.stem}:1"], "Layers": ["layer.tar"]}]
        with tarfile.open(path, "w") as archive:
            file(archive, "config.json", json.dumps(config).encode())
            file(archive, "manifest.json", json.dumps(index).encode())
            member = tarfile.TarInfo("layer.tar")
            member.size = blob.tell()
            blob.seek(0)
            archive.addfile(member, blob)


def main():
    rootfs, place = sys.argv[1:]
    write(pathlib.Path(place, "sandbox.tar"), [], lambda layer: layer.add(rootfs, "/"))
    write(pathlib.Path(place, "limpet.tar"), [], limpet)
    write(pathlib.Path(place, "pause.tar"), ["/pause"], pause)


if __name__ == "__main__":
    main()
