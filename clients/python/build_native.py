"""Compiles limpet._native, where this machine has what that takes: a compiler, Python's headers and msgpack-c's."""

import glob
import os
import shutil
import subprocess
import sys
import sysconfig

_HERE = os.path.dirname(os.path.abspath(__file__))
_ROOT = os.path.dirname(os.path.dirname(_HERE))
_FLAGS = (
    "-std=gnu17", "-O2", "-g0", "-s", "-shared", "-fPIC", "-fvisibility=hidden", "-fstack-protector-strong",
    "-ffunction-sections", "-Wl,--gc-sections", "-Wl,--exclude-libs,ALL", "-D_GNU_SOURCE", "-DPy_LIMITED_API=0x030A0000",
)  # fmt: skip

FILE = "_native.abi3.so"


def tag(native=True, platform=None):
    """Of a wheel that has it, or other programs alone."""
    platform = platform or sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"{'cp310-abi3' if native else 'py3-none'}-{platform}"


def build(directory):
    """The path of the module in that directory, or None with a line that says why there is none."""
    sources = [
        path
        for folder in (os.path.join(_HERE, "native"), os.path.join(_ROOT, "proto"))
        for path in sorted(glob.glob(os.path.join(folder, "**", "*.c"), recursive=True))
    ]
    include = sysconfig.get_path("include")
    compiler, msgpack = shutil.which(os.environ.get("CC", "cc")), _msgpack()
    for there, what in (
        (sys.version_info >= (3, 10) and not sysconfig.get_config_var("Py_GIL_DISABLED"), "Python 3.10 with its lock"),
        (os.path.isdir(os.path.join(_ROOT, "proto")), "Limpet's source tree around this"),
        (compiler, "a C compiler"),
        (os.path.exists(os.path.join(include, "Python.h")), "Python's headers"),
        (msgpack is not None, "msgpack-c and its headers"),
    ):
        if not there:
            return _without(f"it takes {what}")
    module = os.path.join(directory, FILE)
    command = [compiler, *_FLAGS, f"-I{_ROOT}", f"-I{include}", *sources, "-o", module, *msgpack]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return _without(f"the compiler says:\n{done.stdout}") if done.returncode else module


def _msgpack():
    """What the compiler is told of it; None where it is not. LIMPET_MSGPACK_LIBRARY names a library to link in."""
    if "LIMPET_MSGPACK_LIBRARY" in os.environ:
        return [os.environ["LIMPET_MSGPACK_LIBRARY"]]
    for name in ("msgpack-c", "msgpack"):
        try:
            said = subprocess.run(["pkg-config", "--libs", name], capture_output=True, text=True)
        except FileNotFoundError:
            return None
        if said.returncode == 0:
            return said.stdout.split()
    return None


def _without(why):
    print(f"limpet is built without limpet._native, in Python alone: {why}", file=sys.stderr)
    return None
