"""Two owners on one controller that isolates: each has sessions of their own, within what their lines say."""

import os

import limpet
import pytest

from tests.support.controllers import ENGINES

from .door import opened, wait_for

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(os.geteuid() != 0 or "oci" not in ENGINES, reason="owners differ where code is isolated"),
]


@pytest.fixture(scope="module")
def owners():
    with opened(engine="oci") as door:
        first, second = door.new_key(), door.new_key()
        door.authorize(
            f"{door.key.public} owner=root", f"{first.public} owner=40001 sessions=1", f"{second.public} owner=40002 memory=200m"
        )
        before = door.limpetd.said().count("authorized keys read")
        door.limpetd.process.send_signal(1)
        wait_for(lambda: door.limpetd.said().count("authorized keys read") > before)
        with door.client(first, artifacts=False) as one, door.client(second, artifacts=False) as other:
            yield door, one, other


def test_they_do_not_see_each_other(owners):
    door, one, other = owners
    with one.open("same") as ours:
        ours.run("secret = 1")
        with other.open("same", memory="128m") as theirs:
            assert theirs.created
            assert theirs.run("'secret' in globals()").result == "False"
            assert [row.session for row in other.sessions()] == ["same"]
        with pytest.raises(limpet.NoSuchSession):
            other.attach("same").run("secret")
        assert ours.run("secret").result == "1"
    with pytest.raises(limpet.Error, match="only root|another machine"):
        one.shutdown()


def test_their_lines_bound_what_they_have(owners):
    door, one, other = owners
    with one.open(), pytest.raises(limpet.LimitReached, match="sessions in authorized_keys"):
        one.open()
    with other.open(memory="128m"), pytest.raises(limpet.LimitReached, match="memory in authorized_keys"):
        other.open(memory="128m")


def test_the_network_process_has_a_user_of_its_own_and_no_rights(owners):
    door = owners[0]
    with open(f"/proc/{door.process()}/status") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file)
    uids = set(status["Uid"].split())
    assert uids.isdisjoint({"0", str(os.geteuid())}) and len(uids) == 1
    assert (status["CapEff"], status["CapBnd"], status["NoNewPrivs"], status["Seccomp"]) == ("0" * 16, "0" * 16, "1", "2")


def test_artifacts_of_one_are_not_anothers(owners):
    door, one, other = owners
    with one.open() as session:
        result = session.run("_ = open('/session/artifacts/f', 'w').write('mine')").check()
        path = next(iter(result.artifacts))
        assert one.artifact(result, path) == b"mine"
        with pytest.raises(limpet.NoSuchRun):
            other.artifact(result, path)
    alone = one.run("_ = open('/work/artifacts/g', 'w').write('alone')").check()
    assert one.artifact(alone, next(iter(alone.artifacts))) == b"alone"
