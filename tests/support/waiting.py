"""What has to wait before a test goes on."""

import pathlib
import time

PATIENCE = 60  # seconds


def until_it_waits(pid):
    """A moment before its main thread does, Python would only note a signal, and wait then all the same."""
    end = time.monotonic() + PATIENCE
    while pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
        assert time.monotonic() < end, "it does not wait"
        time.sleep(0.01)
