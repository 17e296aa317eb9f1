"""A controller that is not root, on a Docker Engine that lets it in."""

import os
import shutil
import stat

import pytest

from .killed import wait_for

pytestmark = pytest.mark.engine

USER = 12345


@pytest.fixture
def unprivileged(own_limpetd):
    if own_limpetd.engine != "docker":
        pytest.skip("the oci engine needs root; the local one is the same for everybody")
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")
    socket = os.stat(os.environ.get("LIMPET_DOCKER_SOCKET", "/var/run/docker.sock"))
    if not socket.st_mode & stat.S_IWGRP:
        pytest.skip("only root may use the Docker Engine")
    programs = os.path.join(own_limpetd.directory, "bin")
    os.mkdir(programs)
    own_limpetd.program = shutil.copy(own_limpetd.program, programs)
    own_limpetd.run_as = {"user": USER, "group": USER, "extra_groups": [socket.st_gid]}
    for path in (own_limpetd.directory, os.path.join(own_limpetd.directory, "state")):
        os.chown(path, USER, USER)
    own_limpetd.start()
    return own_limpetd


def test_a_session_of_a_user_who_is_not_root(unprivileged):
    with unprivileged.client() as client, client.open("a") as session:
        assert session.run("import os; os.getuid()").result == "20001"
        made = session.run("os.makedirs('artifacts/deep/er'); open('artifacts/deep/er/f', 'w').write('x')")
        (host_path,) = made.artifacts.values()
        assert os.stat(host_path).st_uid == USER
        long = session.run("for _ in range(3): print('x' * (1 << 20))")
        session.get(long.stdout_file, os.path.join(unprivileged.directory, "long"))
        assert os.path.getsize(os.path.join(unprivileged.directory, "long")) == 3 * ((1 << 20) + 1)
        session.put(b"from outside", "/session/in/put.txt")
        assert session.run("open('in/put.txt').read()").result == "'from outside'"
    state = os.path.join(unprivileged.directory, "state")
    wait_for(lambda: not os.path.exists(os.path.join(state, "sessions", "a", "files")))
    assert unprivileged.stop() == 0
    assert os.listdir(os.path.join(state, "removed")) == []
