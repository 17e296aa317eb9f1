"""Installs packages with pip, in a container of its own, and leaves them below /session/packages.

Standard input is the number of characters of the requirements, a line feed, the requirements, and the certificates of the
index, if any. Where the session has packages already they are in this container's user base, and the new ones are added
to a copy. Standard error is pip's log; standard output, where it failed, the reason in one sentence."""

import importlib.metadata
import importlib.util
import json
import os
import py_compile
import re
import shutil
import ssl
import subprocess
import sys
import sysconfig
import urllib.error
import urllib.parse
import urllib.request

PLACE = os.path.abspath("packages")
BASE = os.path.join(PLACE, "base")
BEFORE = os.environ["PYTHONUSERBASE"]
TEMPORARY = os.path.abspath("temporary")
INDEX = os.environ["LIMPET_INDEX"]
BUILDS = bool(os.environ["LIMPET_BUILDS"])
LOCK = os.path.join("share", "limpet", "packages.lock")
CERTIFICATES = os.path.join(TEMPORARY, "certificates.pem")
SECONDS = 20


class Failed(Exception):
    """Says why in one sentence."""


def site(base):
    return sysconfig.get_path("purelib", "posix_user", {"userbase": base})


def read_input():
    text = sys.stdin.read()
    size, _, rest = text.partition("\n")
    return rest[: int(size)], rest[int(size) :]


def prepare(requirements, certificates):
    os.makedirs(TEMPORARY)
    with open(os.path.join(TEMPORARY, "requirements.txt"), "w") as file:
        file.write(requirements)
    if certificates:
        with open(CERTIFICATES, "w") as file:
            file.write(certificates)
    if os.path.exists(os.path.join(BEFORE, LOCK)):
        shutil.copytree(BEFORE, BASE, symlinks=True)
        for directory, _, _ in os.walk(BASE):
            os.chmod(directory, 0o755)
    os.makedirs(site(BASE), exist_ok=True)


# ---- the index ----


def fetch(url):
    context = ssl.create_default_context(cafile=CERTIFICATES if os.path.exists(CERTIFICATES) else None)
    with urllib.request.urlopen(url, timeout=SECONDS, context=context) as response:
        return response.read(), response.geturl()


def page_of(project):
    """The links of a project; None where the index does not know it."""
    try:
        page, url = fetch(f"{INDEX.rstrip('/')}/{re.sub('[-_.]+', '-', project).lower()}/")
    except urllib.error.HTTPError as error:
        if error.code in (404, 410):
            return None
        raise Failed(f"the package index answered {error.code} {error.reason}") from None
    except OSError as error:
        raise Failed(f"the package index cannot be reached: {getattr(error, 'reason', error)}") from None
    return [urllib.parse.urljoin(url, link) for link in re.findall(r'href=["\']([^"\']+)', page.decode("utf-8", "replace"))]


def version_of(link):
    return tuple(map(int, re.search(r"/pip-([0-9.]+)-py3", link)[1].split(".")))


def has_pip():
    """A sandbox has a program of that name that only asks; pip itself has metadata."""
    try:
        return bool(importlib.metadata.version("pip"))
    except importlib.metadata.PackageNotFoundError:
        return False


def pip():
    """How pip is run: that of this Python, or the newest of the index."""
    if has_pip():
        return {}
    wheels = [link for link in page_of("pip") or () if re.search(r"/pip-[0-9.]+-py3-none-any\.whl(#|$)", link)]
    if not wheels:
        raise Failed("the package index has no pip, which installs the others")
    path = os.path.join(TEMPORARY, "pip-0-py3-none-any.whl")
    try:
        content, _ = fetch(max(wheels, key=version_of))
    except OSError as error:
        raise Failed(f"pip cannot be fetched from the package index: {error}") from None
    with open(path, "wb") as file:
        file.write(content)
    return {"PYTHONPATH": path}


# ---- pip ----


def command(report):
    return [
        sys.executable, "-m", "pip", "install", "--user", "--break-system-packages",
        *(["--prefer-binary"] if BUILDS else ["--only-binary", ":all:"]), "--no-compile", "--no-input", "--no-cache-dir", "--no-warn-script-location", "--disable-pip-version-check",
        "--progress-bar", "off", "--root-user-action", "ignore", "--retries", "1", "--timeout", str(SECONDS), "--index-url", INDEX, "--report", report,
        *trusted(), "--constraint", constraints(), "--requirement", os.path.join(TEMPORARY, "requirements.txt"),
    ]  # fmt: skip


def constraints():
    """What is not replaced: what the session has installed, and what its image has, for it may have been imported."""
    places = [site(BASE)] if os.environ["LIMPET_FRESH"] else [site(BASE), *sys.path]
    lines = {}
    for distribution in importlib.metadata.distributions(path=places):
        name, version = distribution.metadata["Name"], distribution.version
        if name and re.fullmatch(r"\d+(\.\d+)*((a|b|rc|\.post|\.dev)\d+)*(\+[a-z0-9.]+)?", version or ""):
            lines.setdefault(name_of(name), f"{name}=={version}\n")
    path = os.path.join(TEMPORARY, "constraints.txt")
    with open(path, "w") as file:
        file.writelines(lines.values())
    return path


def trusted():
    url = urllib.parse.urlsplit(INDEX)
    host = f"{url.hostname}:{url.port}" if url.port else url.hostname
    yield from ("--trusted-host", host) if url.scheme == "http" else ()
    yield from ("--cert", CERTIFICATES) if os.path.exists(CERTIFICATES) else ()


def run_pip(report):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    environment = {**kept, **pip(), "PYTHONUSERBASE": BASE, "TMPDIR": TEMPORARY, "PIP_CONFIG_FILE": os.devnull}
    process = subprocess.Popen(
        command(report), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    said = []
    for line in process.stdout:
        sys.stderr.write(line)
        sys.stderr.flush()
        said.append(line)
    if process.wait() != 0:
        raise Failed(reason("".join(said)))


def missing(requirement, versions):
    project = re.match(r"[A-Za-z0-9._-]*", requirement)[0]
    python = "Python %d.%d" % sys.version_info[:2]
    links = page_of(project)
    if links is None:
        return f"there is no package '{project}' in the index"
    has_source = any(re.search(r"\.(tar\.[a-z0-9]+|tgz|zip)(#|$)", link) for link in links)
    advice = "; the session's option build=allow has packages built from source" if has_source and not BUILDS else ""
    if versions == "none":
        return f"'{project}' has no wheel for {python} on {sysconfig.get_platform()}{advice}"
    newest = ", ".join(versions.split(", ")[-5:])
    what = "a file" if BUILDS else "a wheel"
    return f"no version of '{project}' with {what} for {python} satisfies '{requirement}'; there are {newest}{advice}"


def conflict(said):
    causes = re.search(r"The conflict is caused by:\n((?: +\S.*\n)+)", said)
    there = re.search(r"The user requested \(constraint\) ([^=\s]+)==(\S+)", said)
    if there:
        return (
            f"{there[1]} {there[2]} is there already, and is not replaced in a session that runs, where it may have been "
            "imported; open another session with packages=[...]"
        )
    if not causes:
        return "the requirements conflict with each other"
    return "the requirements conflict: " + "; ".join(line.strip() for line in causes[1].splitlines())


def not_built(said):
    """The package whose build has failed; None where none has."""
    if not re.search(r"subprocess-exited-with-error|metadata-generation-failed|Failed building wheel", said):
        return None
    named = re.findall(r"Failed building wheel for (\S+)", said) or re.findall(r"^Collecting ([A-Za-z0-9._-]+)", said, re.M)
    return named[-1] if named else None


def reason(said):
    found = re.search(r"Could not find a version that satisfies the requirement (.+?) \(from versions: (.*?)\)", said)
    if "No space left on device" in said or "Disk quota exceeded" in said:
        return "the packages do not fit on the disk of the installer (option packages_disk)"
    if not_built(said):
        return f"'{not_built(said)}' could not be built from source; the log has what its build wrote"
    if re.search(r"NewConnectionError|Max retries exceeded|ProxyError|ReadTimeoutError|ConnectTimeout|Connection (refused|broken|reset)", said):
        return "the package index cannot be reached"
    if "THESE PACKAGES DO NOT MATCH THE HASHES" in said:
        return "a file of the index does not have the hash that it should have"
    if "ResolutionImpossible" in said:
        return conflict(said)
    if found:
        return missing(found[1], found[2])
    errors = re.findall(r"^ERROR: (.+)", said, re.M)
    return f"pip failed: {errors[-1] if errors else 'it gave no reason'}"


# ---- what is there then ----


def hashes(report):
    """By name: of the files that have been installed now, and whether one was the source."""
    with open(report) as file:
        installed = json.load(file)["install"]
    found = {}
    for entry in installed:
        archive = entry.get("download_info", {}).get("archive_info", {})
        sha256 = archive.get("hashes", {}).get("sha256") or archive.get("hash", "").partition("sha256=")[2]
        built = "" if urllib.parse.urlsplit(entry["download_info"]["url"]).path.endswith(".whl") else " # built"
        found[name_of(entry["metadata"]["name"])] = sha256 and sha256 + built
    return found


def name_of(project):
    return re.sub("[-_.]+", "-", project).lower()


def hashes_before():
    try:
        with open(os.path.join(BEFORE, LOCK)) as file:
            lines = file.read().splitlines()
    except OSError:
        return {}
    return {line.partition("==")[0]: line.partition("--hash=sha256:")[2] for line in lines}


def write_lock(report):
    known = {**hashes_before(), **hashes(report)}
    lines = []
    for distribution in importlib.metadata.distributions(path=[site(BASE)]):
        name = name_of(distribution.metadata["Name"])
        sha256 = known.get(name)
        lines.append(f"{name}=={distribution.version}" + (f" --hash=sha256:{sha256}" if sha256 else ""))
    text = "".join(f"{line}\n" for line in sorted(lines))
    os.makedirs(os.path.dirname(os.path.join(BASE, LOCK)), exist_ok=True)
    for path in (os.path.join(PLACE, "lock"), os.path.join(BASE, LOCK)):
        if os.path.lexists(path):
            os.unlink(path)
        with open(path, "x") as file:
            file.write(text)


def compile_all():
    """Nobody can later. The time of a source does not count, so that the same packages are the same files."""
    for directory, _, names in os.walk(site(BASE)):
        for name in names:
            path = os.path.join(directory, name)
            if name.endswith(".py") and not os.path.exists(importlib.util.cache_from_source(path)):
                try:
                    py_compile.compile(path, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
                except (OSError, ValueError):
                    pass  # it is imported from its source, or is no source


def main():
    for name in ("no_proxy", "NO_PROXY"):  # nothing that is meant is in this container
        os.environ.pop(name, None)
    report = os.path.join(TEMPORARY, "report.json")
    try:
        prepare(*read_input())
        run_pip(report)
        compile_all()
        write_lock(report)
    except OSError as error:
        raise Failed(f"the installer failed: {error}") from None


try:
    main()
except Failed as failure:
    print(failure)
    sys.exit(1)
