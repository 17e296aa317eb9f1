"""Copies of /session kept with checkpoints, with a guest that is a script: what the controller does alone."""

import os

import pytest

from .scripted import CHECKPOINT, client, controller, files, received, refused, script, session, write

pytestmark = [pytest.mark.once, pytest.mark.sanitize]

__all__ = ["client", "controller", "files", "session"]


def tree(files):
    found = {}
    for directory, directories, names in os.walk(files):
        directories[:] = [name for name in directories if name != ".limpet"]
        for name in directories + names:
            path = os.path.join(directory, name)
            status = os.lstat(path)
            content = os.readlink(path) if os.path.islink(path) else None
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, encoding="utf-8") as file:
                    content = file.read()
            found[os.path.relpath(path, files)] = content, oct(status.st_mode), status.st_mtime_ns
    return found


def test_files_come_back_with_the_checkpoint(client, session, files):
    write(files, "a/deep/er/file", "old")
    write(files, "script", "#!", 0o755)
    write(files, "artifacts/kept.txt", "kept")
    os.symlink("/etc/passwd", os.path.join(files, "link"))
    os.mkfifo(os.path.join(files, "fifo"))
    with open(os.path.join(files, "sparse"), "w", encoding="utf-8") as file:
        file.truncate(1 << 30)
    os.truncate(os.path.join(files, "sparse"), 1 << 20)
    record = client.run(session, "pass")
    assert list(record["artifacts"]) == ["/session/artifacts/kept.txt"]
    before = tree(files)
    inodes = [os.stat(os.path.join(files, name)).st_ino for name in (".", "artifacts", ".limpet")]
    taken = client("checkpoint", session=session, name="clean", files=True)
    assert taken["checkpoint"]["files"] is True
    write(files, "a/deep/er/file", "new")
    write(files, "made/later", "x")
    write(files, ".limpet/ours", "ours")
    write(files, "artifacts/kept.txt", "changed")
    write(files, "artifacts/more.txt", "more")
    os.unlink(os.path.join(files, "link"))
    assert len(client.run(session, "pass")["artifacts"]) == 2
    back = client("rollback", session=session, checkpoint="clean")
    assert back["files"] == "restored"
    after = tree(files)
    del before["fifo"]
    assert {name: what for name, what in after.items() if name != "artifacts"} == {
        name: what for name, what in before.items() if name != "artifacts"
    }
    assert os.path.exists(os.path.join(files, ".limpet", "ours"))
    assert [os.stat(os.path.join(files, name)).st_ino for name in (".", "artifacts", ".limpet")] == inodes
    assert sorted(os.listdir(os.path.join(files, ".limpet"))) == ["ours"]


def test_restored_artifacts_are_nothing_new_and_later_ones_are(client, session, files):
    write(files, "artifacts/a.txt", "old")
    published = client.run(session, "pass")["artifacts"]["/session/artifacts/a.txt"]
    client("checkpoint", session=session, name="clean", files=True)
    write(files, "artifacts/a.txt", "new")
    client.run(session, "pass")
    client("rollback", session=session, checkpoint="clean")
    assert client.run(session, "pass")["artifacts"] == {}
    with open(published, encoding="utf-8") as file:
        assert file.read() == "new", "what was published stays"
    write(files, "artifacts/a.txt", "abc")
    write(files, "artifacts/sub/b.txt", "b")
    found = client.run(session, "pass")["artifacts"]
    assert sorted(found) == ["/session/artifacts/a.txt", "/session/artifacts/sub/b.txt"]


def test_a_copy_over_the_budget_is_refused_and_nothing_is_taken(client, session, files):
    write(files, "large", "x" * (100 << 10))
    error = refused(client, "checkpoint", session=session, files=True)
    assert error.name == "TooLarge" and "files_budget" in str(error)
    assert received(client, session, "checkpoint") == []
    store = os.path.join(os.path.dirname(files), "checkpoints")
    assert os.listdir(store) == []


def test_the_budget_is_of_all_copies_and_those_that_go_give_it_back(client, session, files):
    write(files, "half", "x" * (30 << 10))
    client("checkpoint", session=session, name="one", files=True)
    assert refused(client, "checkpoint", session=session, name="two", files=True).name == "TooLarge"
    client("drop", session=session, checkpoint="one")
    client("checkpoint", session=session, name="two", files=True)


def test_files_go_with_their_checkpoint(client, session, files):
    store = os.path.join(os.path.dirname(files), "checkpoints")

    def kept():
        return sorted(entry.split("@")[0] for entry in os.listdir(store) if entry[0] != ".")

    for name in ("one", "two", "three", "four"):
        client("checkpoint", session=session, name=name, files=True)
    assert kept() == ["c1", "c2", "c3", "c4"]
    script(client, session, "guest.replies['drop'] = (1106, 'lost')")
    assert refused(client, "drop", session=session, checkpoint="two").name == "NoSuchCheckpoint"
    assert kept() == ["c1", "c3", "c4"]
    script(client, session, "guest.checkpoints = [c for c in guest.checkpoints if c['id'] != 'c3']")
    listed = client("checkpoints", session=session)["checkpoints"]
    assert [(c["id"], c["files"]) for c in listed] == [("c1", True), ("c2", False), ("c4", True)]
    assert kept() == ["c1", "c4"]
    reply = {"checkpoint": CHECKPOINT | {"id": "c9"}, "dropped": ["c4"]}
    script(client, session, f"guest.replies['checkpoint'] = {reply!r}")
    client("checkpoint", session=session)
    assert kept() == ["c1"]
    script(client, session, "guest.replies['checkpoint'] = (1108, 'no room')")
    assert refused(client, "checkpoint", session=session, files=True).name == "CheckpointFailed"
    assert kept() == ["c1"]


def test_files_of_a_rollback_that_fails_stay(client, session, files):
    write(files, "file", "old")
    client("checkpoint", session=session, name="one", files=True)
    write(files, "file", "new")
    script(client, session, "guest.replies['rollback'] = (1204, 'could not')")
    assert refused(client, "rollback", session=session, checkpoint="one").name == "Internal"
    assert tree(files)["file"][0] == "new"
    assert os.listdir(os.path.join(files, ".limpet")) == []
