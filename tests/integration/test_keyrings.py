"""What the kernel has few of for each user."""

import pathlib

import pytest

SESSIONS = 6


def keys():
    """How many each user has."""
    rows = (line.split() for line in pathlib.Path("/proc/key-users").read_text().splitlines())
    return {uid: int(counts.split("/")[0]) for uid, _, counts, *_ in rows}


def test_a_session_takes_no_key(limpetd, client, name):
    if limpetd.engine == "docker":
        pytest.skip("the Docker Engine gives each container a keyring")
    before = keys()
    opened = [client.open(f"{name}-{number}", memory="64m") for number in range(SESSIONS)]
    try:
        after = keys()
    finally:
        for session in opened:
            session.close()
    grown = {uid: count - before.get(uid, 0) for uid, count in after.items()}
    assert max(grown.values()) < SESSIONS, grown
