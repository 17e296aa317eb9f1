"""limpet-image: what is in the image, and that it is made once, under the same name, and leaves nothing behind."""

import http.server
import io
import json
import os
import re
import shutil
import socketserver
import stat
import subprocess
import tarfile
import tempfile
import threading
import urllib.parse
import zipfile
from pathlib import Path

import limpet
import pytest

from tests.support.limpetd import running

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "image" / "build"
STATE = Path(os.environ.get("LIMPET_STATE_DIR", "/var/lib/limpet"))

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="root file systems are made by root")


def run(*arguments, check=0, state=STATE, tool=TOOL, **env):
    """Output of limpet-image; no Docker engine takes part."""
    result = subprocess.run(
        [tool, *map(str, arguments)],
        env={**os.environ, "LIMPET_STATE_DIR": str(state), "LIMPET_DOCKER_SOCKET": "/nonexistent", **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert result.returncode == check, result.stdout
    return result.stdout


def entries(path):
    lines = (line.partition("#")[0].split() for line in path.read_text().splitlines())
    return [line for line in lines if line]


def mounts(state):
    """Below that directory: sessions elsewhere mount their disks meanwhile."""
    return [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(state.resolve()) in line]


@pytest.fixture(scope="module")
def image():
    """The default image, made if it is missing."""
    run("build", "--engine", "oci")
    return STATE / "images" / "default"


@pytest.fixture
def state(image):
    """A state directory without images that shares what builds keep, and the lock on that."""
    directory = Path(tempfile.mkdtemp(prefix="image-test-", dir=STATE))
    (directory / "images").mkdir()
    for shared in (".cache", ".lock"):
        (directory / "images" / shared).symlink_to(STATE / "images" / shared)
    yield directory
    shutil.rmtree(directory)


def copy_source(target):
    shutil.copy(ROOT / "CMakeLists.txt", target)
    for name in ("proto", "guest"):
        shutil.copytree(ROOT / name, target / name)
    return target


@pytest.mark.parametrize("name", ["packages.txt", "packages-pip.txt", "data.txt", "data-pip.txt", "toolchain.txt", "toolchain-pip.txt"])
def test_lists_name_each_package_once(name):
    names = [entry[0] for entry in entries(ROOT / "image" / name)]
    assert len(set(names)) == len(names) > 0


def test_every_module_of_an_entry_is_one_word():
    assert all(len(entry) <= 2 for entry in entries(ROOT / "image" / "packages.txt"))


@pytest.mark.parametrize("name", ["packages-pip.txt", "data-pip.txt"])
def test_what_comes_from_the_index_is_locked(name):
    for requirement, _, *hashes in entries(ROOT / "image" / name):
        assert "==" in requirement and "*" not in requirement
        assert hashes and all(re.fullmatch("sha256:[0-9a-f]{64}", digest) for digest in hashes)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["frobnicate"], "unknown command"),
        (["build", "--frobnicate"], "unknown argument"),
        (["build", "--packages"], "needs a value"),
        (["build", "--packages", "/nonexistent"], "cannot read /nonexistent"),
        (["build", "--name", "../up"], "an alias consists of"),
        (["build", "--engine", "frob"], "unknown engine frob"),
        (["build", "--with", "cobol"], "no part cobol can be added; there are browser data c cpp go java javascript pyodide r ruby rust typescript"),
        (["build", "--with", ""], "--with needs the names of languages"),
        (["rm"], "no image given"),
    ],
)
def test_wrong_arguments_are_explained(arguments, words):
    assert words in run(*arguments, check=2)


def test_the_help_runs_no_command_that_it_names():
    text = run("--help")
    assert text.startswith("usage: ") and "as `docker import` takes them" in text
    assert run("build", "--help") == text


@pytest.mark.parametrize("name", ["nothing-there", "../images", ".cache", ""])
def test_removing_what_is_no_image(name, tmp_path):
    assert "no image" in run("rm", name, check=1, state=tmp_path)


def test_ls_without_images(tmp_path):
    assert len(run("ls", state=tmp_path).splitlines()) == 1
    assert json.loads(run("ls", "--json", state=tmp_path)) == []


@pytest.fixture
def readable_copy():
    """A copy of the tree that any user may read."""
    directory = Path(tempfile.mkdtemp(prefix="limpet-tree-"))
    directory.chmod(0o755)
    for name in ("image", "scripts"):
        shutil.copytree(ROOT / name, directory / name)
    yield copy_source(directory)
    shutil.rmtree(directory)


def run_as_nobody(tree, **env):
    return subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", tree / "image/build", "build"],
        env={"PATH": os.environ["PATH"], "LIMPET_STATE_DIR": "/nonexistent", **env},
        capture_output=True,
        text=True,
    )


@needs_root
def test_without_root_it_says_what_to_do(readable_copy):
    result = run_as_nobody(readable_copy, LIMPET_DOCKER_SOCKET="/nonexistent")
    assert result.returncode == 1
    assert "sudo" in result.stderr and "you have no subordinate ids" in result.stderr


class DockerEngine(http.server.BaseHTTPRequestHandler):
    """As much of one as making an image takes; ends a build with what the server has in `says`."""

    def answer(self, status, text=""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_GET(self):
        known = self.path == "/_ping" or self.path.split("/")[2] in self.server.images
        self.answer(200 if known else 404)

    def do_POST(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if url.path == "/build":
            self.server.builds.append((query, self.context()))
            if "error" not in self.server.says:
                self.server.images.add(query["t"])
            self.answer(200, self.server.says)
        else:
            self.server.images.add(f"{query['repo']}:{query['tag']}")
            self.answer(201)

    def context(self):
        """The names in the archive that is sent in chunks."""
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size + 2)[:-2]
        self.rfile.readline()
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            return archive.getnames()

    def address_string(self):
        return "limpet-image"

    def log_message(self, *arguments):
        pass


@pytest.fixture
def docker_engine(readable_copy):
    server = socketserver.ThreadingUnixStreamServer(str(readable_copy / "docker.sock"), DockerEngine)
    server.images, server.builds, server.says = set(), [], '{"stream": "Successfully built"}'
    (readable_copy / "docker.sock").chmod(0o666)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@needs_root
def test_a_docker_engine_makes_it_for_whoever_is_not_root(readable_copy, docker_engine):
    def build():
        result = run_as_nobody(readable_copy, LIMPET_DOCKER_SOCKET=str(readable_copy / "docker.sock"))
        assert result.returncode == 0, result.stdout + result.stderr

    build()
    [(query, names)] = docker_engine.builds
    assert docker_engine.images == {query["t"], "limpet:default"} and re.fullmatch("limpet:limpet-[0-9a-f]{12}", query["t"])
    assert json.loads(query["labels"]) == {"limpet.image": query["t"].removeprefix("limpet:")}
    for line in (readable_copy / query["dockerfile"]).read_text().splitlines():
        if line.startswith("COPY") and "--from" not in line:
            for copied in line.split()[1:-1]:
                assert any(name == copied or name.startswith(copied + "/") for name in names), copied
    build()
    assert len(docker_engine.builds) == 1


@needs_root
def test_what_the_docker_engine_cannot_make_is_told(readable_copy, docker_engine):
    docker_engine.says = '{"errorDetail": {"message": "no registry"}, "error": "no registry"}'
    logs = readable_copy / "logs"
    logs.mkdir()
    logs.chmod(0o777)
    result = run_as_nobody(readable_copy, LIMPET_DOCKER_SOCKET=str(readable_copy / "docker.sock"), TMPDIR=str(logs))
    assert result.returncode == 1 and "no registry" in result.stderr
    [log] = logs.iterdir()
    assert str(log) in result.stderr + result.stdout and "no registry" in log.read_text()
    assert docker_engine.images == set()


@needs_root
def test_smoke(image):
    output = run("smoke", "default")
    assert output.endswith("smoke test passed\n")
    for entry in entries(ROOT / "image" / "packages.txt"):
        assert len(entry) == 1 or f"  {entry[1]} " in output


@needs_root
def test_what_is_in_the_image(image):
    rootfs = image / "rootfs"
    for program in ("limpet-guest", "limpet-interpreter"):
        assert os.access(rootfs / "usr/lib/limpet" / program, os.X_OK)
    for directory in ("session", "data", "work", "run/limpet", "proc", "sys", "dev", "tmp"):
        assert (rootfs / directory).is_dir() and not (rootfs / directory).is_symlink()
    assert "user:x:20001:20001:sandboxed code:/home/user:" in (rootfs / "etc/passwd").read_text()
    assert (rootfs / "etc/resolv.conf").read_bytes() == b""
    assert list((rootfs / "usr/lib/limpet/mpl").glob("fontlist-*.json"))
    packages = rootfs / "usr/lib/python3/dist-packages"
    for compiled in packages / "pandas", rootfs / "usr/lib/python3.13":
        assert list(compiled.glob("__pycache__/*.cpython-313.pyc"))


@needs_root
@pytest.mark.proves("security: gaining rights")
def test_what_is_not_in_the_image(image):
    rootfs = image / "rootfs"
    for name in ("gcc", "cc", "cmake", "pip", "pip3"):
        assert not (rootfs / "usr/bin" / name).exists()
    assert not (rootfs / "usr/lib/python3/dist-packages/pandas/tests").exists()
    assert all(path.is_symlink() for path in (rootfs / "usr/share/doc").glob("*/changelog*"))  # dpkg makes links all the same
    assert not list((rootfs / "usr/share/man").rglob("*.gz"))
    assert not list((rootfs / "var/lib/apt/lists").glob("*_Packages*"))
    assert not (rootfs / "etc/apt/sources.list").exists()
    assert not (rootfs / "limpet").exists()
    for directory, _, names in os.walk(rootfs):
        for name in names:
            mode = os.lstat(os.path.join(directory, name)).st_mode
            assert not (stat.S_ISREG(mode) and mode & 0o6000), (directory, name)
            assert not stat.S_ISBLK(mode) and not stat.S_ISCHR(mode), (directory, name)


@needs_root
def test_manifest(image):
    manifest = json.loads((image / "manifest.json").read_text())
    assert manifest["name"] == image.resolve().name == "limpet-" + manifest["inputs"][:12]
    assert manifest["python"].startswith("3.13")
    assert manifest["size"] < 1_250_000_000
    assert {entry[0] for entry in entries(ROOT / "image" / "packages.txt")} <= manifest["packages"].keys()
    assert manifest["pip"] == ["pyarrow-26.0.1"] and "javascript" in manifest["languages"].split()


@needs_root
def test_the_same_inputs_make_nothing_new(image):
    before = image.resolve(), os.stat(image).st_mtime_ns
    assert "is up to date" in run("build", "--engine", "oci")
    assert (image.resolve(), os.stat(image).st_mtime_ns) == before


@needs_root
def test_the_same_sources_elsewhere_have_the_same_name(image, tmp_path):
    source = copy_source(tmp_path)
    (source / "proto" / "notes.md").write_text("no input of the image")
    assert "is up to date" in run("build", "--engine", "oci", LIMPET_SOURCE=str(source))


@needs_root
def test_installed_it_makes_the_same_image(image, tmp_path):
    build = Path(os.environ.get("LIMPET_BUILD", ROOT / "build" / "bin")).parent
    of_an_earlier_version = tmp_path / "share/limpet/guest/gone.c"
    of_an_earlier_version.parent.mkdir(parents=True)
    of_an_earlier_version.touch()
    subprocess.run(
        ["cmake", "--install", build, "--prefix", tmp_path, "--component", "host"], check=True, capture_output=True
    )
    tool = tmp_path / "libexec" / "limpet" / "limpet-image"
    assert f"Image {image.resolve().name} is up to date" in run("build", "--engine", "oci", tool=tool)


def test_the_interpreter_is_installed_below_any_prefix(tmp_path):
    build = Path(os.environ.get("LIMPET_BUILD", ROOT / "build" / "bin")).parent
    for prefix in (tmp_path / "a", tmp_path / "deep/er"):
        subprocess.run(["cmake", "--install", build, "--prefix", prefix, "--component", "guest"], check=True, capture_output=True)
        said = subprocess.run([prefix / "lib/limpet/limpet-interpreter", "--version"], check=True, capture_output=True, text=True)
        assert said.stdout.startswith("Python 3.")


@needs_root
def test_a_source_that_does_not_compile(state, tmp_path):
    source = copy_source(tmp_path)
    (source / "guest" / "supervisor" / "session" / "main.c").write_text("this is not C\n")
    before = mounts(state)
    output = run("build", "--engine", "oci", check=1, state=state, LIMPET_SOURCE=str(source))
    assert "compiling the guest  failed" in output and "last lines of" in output and "error:" in output
    assert run("ls", state=state).count("limpet-") == 0
    assert not (state / "images/.cache/new").exists()
    assert mounts(state) == before


def make_wheel(directory):
    info = "limpet_probe-1.0.dist-info"
    with zipfile.ZipFile(directory / "limpet_probe-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("limpet_probe.py", "answer = 42\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: limpet-probe\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", f"limpet_probe.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")


@needs_root
def test_a_variant_with_a_python_package(state, tmp_path):
    make_wheel(tmp_path)
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("limpet-probe\n")
    output = run(
        "build", "--engine", "oci", "--pip", requirements, "--name", "probe", state=state,
        PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path),
    )  # fmt: skip
    assert "installing Python packages" in output and "bootstrapping" not in output
    (row,) = json.loads(run("ls", "--json", state=state))
    assert row["aliases"] == ["probe"] and sorted(row["manifest"]["pip"]) == ["limpet_probe-1.0", "pyarrow-26.0.1"]
    rootfs = state / "images" / "probe" / "rootfs"
    code = "import limpet_probe, numpy; print(limpet_probe.answer)"
    assert subprocess.check_output(["chroot", rootfs, "python3", "-c", code], text=True) == "42\n"
    # Files are shared with the base, and nothing was written to one of them.
    assert os.stat(rootfs / "usr/bin/python3.13").st_nlink > 1
    assert "Removed" in run("rm", "probe", state=state)
    assert not list(state.glob("images/[a-z]*"))


@needs_root
def test_a_variant_with_languages(state, monkeypatch):
    output = run("build", "--engine", "oci", "--with", "ruby,c", "--name", "probe", state=state)
    assert "installing the added packages" in output or "is ready" in output
    assert "bootstrapping" not in output
    rootfs = state / "images" / "probe" / "rootfs"
    assert subprocess.check_output(["chroot", rootfs, "ruby", "-e", "puts 6 * 7"], text=True) == "42\n"
    assert not (rootfs / "limpet").exists()
    assert not list((rootfs / "usr/share/man").glob("man1/ruby*"))
    assert subprocess.run(["chroot", rootfs, "dpkg", "--audit"], capture_output=True, text=True).stdout == ""
    assert os.stat(rootfs / "usr/bin/python3.13").st_nlink > 1
    (row,) = json.loads(run("ls", "--json", state=state))
    languages = "bash c javascript python ruby"
    assert row["manifest"]["languages"] == languages and languages in run("ls", state=state)
    monkeypatch.setattr("tests.support.limpetd.IMAGES", str(state / "images"))
    with running("oci") as limpetd, limpetd.client() as client, client.open(image="probe") as session:
        assert session.run("x = 6\nx * 7", language="ruby").result == "42"
        program = '#include <stdio.h>\nint main(void) { puts("hello"); }'
        assert session.run(program, language="c").stdout == "hello\n"
        with pytest.raises(limpet.BadRequest, match="this image has no r.+it has python, bash, c, javascript, ruby"):
            session.context(language="r")
    assert "Removed" in run("rm", "probe", state=state)


def fake_image(state, name):
    directory = state / "images" / name
    (directory / "rootfs").mkdir(parents=True)
    (directory / "manifest.json").write_text(
        f'{{\n  "name": "{name}",\n  "created": 1700000000,\n  "python": "3.13.5",\n  "size": 5000000\n}}\n'
    )


def test_listing_and_removing(tmp_path):
    for name in ("limpet-a", "limpet-b"):
        fake_image(tmp_path, name)
    for alias in ("default", "mine"):
        (tmp_path / "images" / alias).symlink_to("limpet-b")
    rows = json.loads(run("ls", "--json", state=tmp_path))
    assert [(row["manifest"]["name"], row["aliases"]) for row in rows] == [
        ("limpet-a", []),
        ("limpet-b", ["default", "mine"]),
    ]
    assert run("ls", state=tmp_path).splitlines()[2].split()[:2] == ["limpet-b", "default,mine"]
    assert run("rm", "limpet-a", state=tmp_path) == "Removed limpet-a.\n"
    assert run("rm", "mine", state=tmp_path) == "Removed limpet-b.\n"
    assert json.loads(run("ls", "--json", state=tmp_path)) == []
    assert not list(tmp_path.glob("images/[a-z]*"))


@needs_root
def test_an_image_in_use_is_not_removed(image):
    script = f"mount --bind {image.resolve()}/rootfs /mnt && {TOOL} rm default"
    result = subprocess.run(
        ["unshare", "--mount", "bash", "-c", script],
        env={**os.environ, "LIMPET_STATE_DIR": str(STATE), "LIMPET_DOCKER_SOCKET": "/nonexistent"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1 and "a sandbox uses" in result.stderr
    assert (image / "rootfs").is_dir()
