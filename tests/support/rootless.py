"""Controllers of a user who is not root and has subordinate ids.

Neither the user nor the ids are the machine's: what the machine knows of users lies under files of ours, in mounts that
the controller alone has. Its images are those that all tests use, mounted there too.
"""

import os
from pathlib import Path

from .limpetd import IMAGES, Limpetd
from .needs import need

USER = 54321
FIRST, COUNT = 300_000_000, 65536

BECOME = """
mount --bind "$1/passwd" /etc/passwd && mount --bind "$1/subids" /etc/subuid && mount --bind "$1/subids" /etc/subgid &&
mount --bind "$2" "$1/state/images" || exit 1
shift 2
exec setpriv --reuid USER --regid USER --clear-groups -- "$@"
""".replace("USER", str(USER))


def outside(uid):
    """On the machine, what that uid of the controller's namespace is."""
    return USER if uid == 0 else FIRST + uid - 1


class RootlessLimpetd(Limpetd):
    """With `subids`, lines of /etc/subuid, other ids than those of the user."""

    def __init__(self, subids=f"limpet-test:{FIRST}:{COUNT}\n", **options):
        need("newuidmap", "oci")
        super().__init__("oci", **options)
        directory = Path(self.directory)
        os.unlink(directory / "state/images")
        os.mkdir(directory / "state/images")
        users = Path("/etc/passwd").read_text()
        (directory / "passwd").write_text(f"{users}limpet-test:x:{USER}:{USER}::/nonexistent:/bin/sh\n")
        (directory / "subids").write_text(subids)
        for path in (directory, directory / "state"):
            os.chown(path, USER, USER)
            path.chmod(0o700)

    def command(self, *more):
        own = super().command(*more)
        engine = own.index("--engine")
        del own[engine : engine + 2]  # it is what an ordinary user gets who names none
        own += ["--docker-socket", os.path.join(self.directory, "no-docker")]
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", BECOME, "sh", self.directory, os.path.realpath(IMAGES), *own]
