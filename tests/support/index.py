"""A package index on loopback, with packages that tests make."""

import base64
import contextlib
import hashlib
import html
import http.server
import io
import pathlib
import subprocess
import tarfile
import tempfile
import threading
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHEELS = ROOT / "build/test-wheels"


def hash_of(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def wheel(name, version="1.0", files=None, requires=(), scripts=None, raw=()):
    """The bytes of a wheel: `files` by path, `raw` what is in it besides, as pairs of ZipInfo and content."""
    content = {path: text.encode() if isinstance(text, str) else text for path, text in (files or {}).items()}
    info = f"{name}-{version}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {r}" for r in requires)]
    content[f"{info}/METADATA"] = ("\n".join(lines) + "\n").encode()
    content[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    if scripts:
        points = "".join(f"{script} = {target}\n" for script, target in scripts.items())
        content[f"{info}/entry_points.txt"] = f"[console_scripts]\n{points}".encode()
    record = [f"{path},sha256={hash_of(data)},{len(data)}" for path, data in content.items()]
    record += [f"{entry.filename},sha256={hash_of(data)},{len(data)}" for entry, data in raw]
    content[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in content.items():
            archive.writestr(zipfile.ZipInfo(path, (2024, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
        for entry, data in raw:
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return out.getvalue()


BACKEND = '''import os, urllib.request, zipfile

def build_wheel(directory, settings=None, metadata=None):
    seen = {code}
    info, file = "{name}-{version}.dist-info", "{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(directory, file), "w") as archive:
        archive.writestr("{name}/__init__.py", f"seen = {{seen!r}}\\n")
        archive.writestr(f"{{info}}/METADATA", "Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
        archive.writestr(f"{{info}}/WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr(f"{{info}}/RECORD", "")
    return file
'''


def source(name, version="1.0", code="None"):
    """The bytes of a source distribution that needs nothing to be built. `seen` of its package is what the Python
    expression `code` gave when it was."""
    files = {
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        "backend.py": BACKEND.format(name=name, version=version, code=code),
    }
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(f"{name}-{version}/{path}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


def pip_wheel():
    """One that newer Pythons take, too: fetched once, as everything that tests need."""
    if not list(WHEELS.glob("pip-*.whl")):
        tools = subprocess.run([ROOT / "scripts/python-tools"], check=True, capture_output=True, text=True).stdout.strip()
        WHEELS.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=WHEELS) as new:  # other suites may be at it
            command = [f"{tools}/python", "-m", "pip", "download", "--quiet", "--no-deps", "--dest", new, "pip"]
            subprocess.run(command, check=True)
            for wheel in pathlib.Path(new).iterdir():
                wheel.rename(WHEELS / wheel.name)
    found = max(WHEELS.glob("pip-*.whl"))
    return found.name, found.read_bytes()


class Index:
    """What it has, by project and file name. Others may be added while it serves."""

    def __init__(self):
        name, content = pip_wheel()
        self.projects = {"pip": {name: content}}
        self.requests = []  # paths, in the order they were asked for
        self.answer = None  # a function of the handler that answers in place of the index; True when it has
        self.url = None

    def add(self, name, version="1.0", files=None, **more):
        files = {f"{name}/__init__.py": f"version = {version!r}\n"} if files is None else files
        self.add_file(name, f"{name}-{version}-py3-none-any.whl", wheel(name, version, files, **more))

    def add_source(self, name, version="1.0", **more):
        self.add_file(name, f"{name}-{version}.tar.gz", source(name, version, **more))

    def add_file(self, project, file, content):
        self.projects.setdefault(project.replace("_", "-").lower(), {})[file] = content

    def page(self, project):
        links = [
            f'<a href="{self.url}/files/{project}/{html.escape(file)}#sha256={hashlib.sha256(content).hexdigest()}">{html.escape(file)}</a>'
            for file, content in self.projects[project].items()
        ]
        return "<!DOCTYPE html><html><body>" + "\n".join(links) + "</body></html>"

    def get(self, path):
        """The content and its type, or None."""
        kind, _, rest = path.strip("/").partition("/")
        project, _, file = rest.partition("/")
        if kind == "simple" and project in self.projects and not file:
            return self.page(project).encode(), "text/html"
        content = self.projects.get(project, {}).get(file) if kind == "files" else None
        return None if content is None else (content, "application/octet-stream")


def handler_of(index):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            index.requests.append(self.path)
            if index.answer and index.answer(self):
                return
            found = index.get(self.path)
            if found is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Type", found[1])
            self.send_header("Content-Length", str(len(found[0])))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(found[0])

        def log_message(self, *arguments):
            pass

    return Handler


@contextlib.contextmanager
def serving():
    """An index, which serves at `url` + /simple."""
    index = Index()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler_of(index))
    index.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield index
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
