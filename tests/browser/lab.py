"""A JupyterLab server on loopback that asks nobody outside."""

import json
import os
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request

import nbformat
import pytest

from tests.support.ports import free_port

START = STOP = 120  # seconds
NO_NEWS = {"fetchNews": "false", "checkForUpdates": False}


class Lab:
    def __init__(self, directory):
        self.notebooks = directory / "notebooks"
        self.notebooks.mkdir()
        self.log = directory / "lab.log"
        settings = directory / "settings" / "@jupyterlab" / "apputils-extension"
        settings.mkdir(parents=True)
        (settings / "notification.jupyterlab-settings").write_text(json.dumps(NO_NEWS))
        self._port, self._token = free_port(), secrets.token_hex(16)
        command = [
            sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1",
            f"--port={self._port}", "--ServerApp.port_retries=0", f"--ServerApp.root_dir={self.notebooks}",
            "--LabApp.extension_manager=readonly", f"--LabApp.user_settings_dir={directory / 'settings'}",
            f"--LabApp.workspaces_dir={directory / 'workspaces'}",
        ]  # fmt: skip
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, "JUPYTER_TOKEN": self._token},
            )  # fmt: skip
        self._wait()

    def _wait(self):
        end = time.monotonic() + START
        while time.monotonic() < end and self.process.poll() is None:
            try:
                with urllib.request.urlopen(self.url("api"), timeout=START):
                    return
            except urllib.error.URLError:
                time.sleep(0.1)
        self.stop()
        pytest.fail(f"JupyterLab did not start: {self.log.read_text(errors='replace')[-4000:]}")

    def url(self, path):
        return f"http://127.0.0.1:{self._port}/{path}?token={self._token}"

    def write(self, name, *cells):
        """A notebook with the limpet kernel; Markdown where a cell begins with a heading."""
        made = [
            nbformat.v4.new_markdown_cell(cell) if cell.startswith("# ") else nbformat.v4.new_code_cell(cell)
            for cell in cells
        ]
        notebook = nbformat.v4.new_notebook(cells=made)
        notebook.metadata["kernelspec"] = {"name": "limpet", "display_name": "Limpet", "language": "python"}
        nbformat.write(notebook, self.notebooks / name)
        return name

    def outputs(self, name):
        """How many the file of a notebook has."""
        cells = nbformat.read(self.notebooks / name, nbformat.NO_CONVERT).cells
        return sum(len(cell.get("outputs", ())) for cell in cells)

    def stop(self):
        """Ends the kernels as well."""
        self.process.terminate()
        try:
            self.process.wait(STOP)
        finally:
            self.process.kill()
            self.process.wait()
