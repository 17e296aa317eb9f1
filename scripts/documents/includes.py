"""Which folder includes which, as text for docs/architecture.md."""
import re
import subprocess
from collections import defaultdict
from pathlib import PurePosixPath

AREAS = ("clients", "guest", "host", "proto")
INCLUDE = re.compile(r'^#include "((?:clients|guest|host|proto)/[^"]+)"', re.M)


def sources(root):
    out = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "--", *AREAS],
                         check=True, stdout=subprocess.PIPE, text=True).stdout
    return [path for path in sorted(out.splitlines()) if path.endswith((".c", ".h", ".def")) and (root / path).is_file()]


def edges(root):
    found = defaultdict(set)
    for path in sources(root):
        folder = str(PurePosixPath(path).parent)
        for included in INCLUDE.findall((root / path).read_text()):
            other = str(PurePosixPath(included).parent)
            if other != folder:
                found[folder].add(other)
    return found


def picture(root):
    found = edges(root)
    width = max(map(len, found))
    lines = [f"{folder:{width}} → {', '.join(sorted(found[folder]))}" for folder in sorted(found)]
    return "```text\n" + "\n".join(lines) + "\n```"
