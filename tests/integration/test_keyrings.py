"""What the kernel has few of for each user."""

import pathlib

import pytest

pytestmark = pytest.mark.engine

SESSIONS = 6
TRIES = 10  # other programs of this machine, too, have more keys now and then


def keys():
    """How many each user has."""
    rows = (line.split() for line in pathlib.Path("/proc/key-users").read_text().splitlines())
    return {uid: int(counts.split("/")[0]) for uid, _, counts, *_ in rows}


@pytest.mark.docker
def test_a_session_takes_no_key(limpetd, client, name):
    if limpetd.engine == "docker":
        pytest.skip("the Docker Engine gives each container a keyring")
    assert any(growth(client, name) < SESSIONS for _ in range(TRIES))


def growth(client, name):
    """The most that any user has more when there are some sessions more."""
    before = keys()
    opened = [client.open(f"{name}-{number}", memory="64m") for number in range(SESSIONS)]
    try:
        return max(count - before.get(uid, 0) for uid, count in keys().items())
    finally:
        for session in opened:
            session.close()
