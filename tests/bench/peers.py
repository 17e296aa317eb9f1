"""Peers that come from PyPI, by the names they are imported by."""
import subprocess
import sys

from runner import LeftOut

INSTALL_SECONDS = 300
tried = {}  # packages: why they cannot be had, or None


def has(python, packages):
    imports = [python, "-c", f"import {', '.join(packages)}"]
    return python.exists() and subprocess.run(imports, capture_output=True).returncode == 0


def install(bench, python, packages):
    """None, or why they cannot be had."""
    bench.say(f"installing {' '.join(packages)} from PyPI into {python.parent.parent}")
    try:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", python.parent.parent], check=True, capture_output=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--retries", "1", "--timeout", "20", *packages],
                       check=True, capture_output=True, timeout=INSTALL_SECONDS)
    except (subprocess.SubprocessError, OSError) as error:
        return f"{' '.join(packages)} could not be installed from PyPI ({type(error).__name__})"
    return None


def environment(bench, packages):
    """The Python of a virtual environment beside the build with these packages, made on first use."""
    python = bench.build.parent / "jupyter" / "bin" / "python"
    if packages not in tried:
        tried[packages] = None if has(python, packages) else install(bench, python, packages)
    if tried[packages]:
        raise LeftOut(tried[packages])
    return python
