"""What sessions leave when they have ended, published artifacts and outputs, is bounded: by age, and in all."""

import os
import time

import limpet
import pytest

from .killed import host, wait_for  # noqa: F401

pytestmark = pytest.mark.engine

DAY = 86400


def leave(host, name, size=100000):  # noqa: F811
    with host.client.open(name) as session:
        result = session.run(host.code(f"open('/session/artifacts/a', 'wb').write(bytes(range(256)) * {size // 256})"))
        (path,) = result.artifacts.values()
    return path


def put_back(path, seconds):
    """As if it had ended so long ago."""
    then = time.time() - seconds
    os.utime(path, (then, then))


def wait_for_end(host, condition):  # noqa: F811
    """An end is one step of the files worker, in which the directories of what was published change last. Another step follows it."""
    wait_for(condition)
    host.client.run("")


def ended_ago(host, name, seconds):  # noqa: F811
    wait_for_end(host, lambda: os.listdir(host.path("sessions", name)) == ["artifacts"])
    put_back(host.path("sessions", name), seconds)


def test_what_is_too_old_goes(host):  # noqa: F811
    """Too old is a week."""
    old, young = leave(host, "old"), leave(host, "young")
    (output,) = host.client.run("open('artifacts/a', 'w').write('x')").artifacts.values()
    ended_ago(host, "old", 8 * DAY)
    ended_ago(host, "young", 6 * DAY)
    directory = os.path.dirname(os.path.dirname(output))
    wait_for_end(host, lambda: not os.path.exists(host.path("sessions", os.path.basename(directory))))
    put_back(directory, 8 * DAY)
    leave(host, "another")  # its end has them looked over
    wait_for(lambda: not os.path.exists(old) and not os.path.exists(output))
    assert os.path.exists(young)
    assert not os.path.exists(host.path("sessions", "old"))


def test_the_oldest_go_first(host, monkeypatch):  # noqa: F811
    paths = [leave(host, f"s{i}", 400000) for i in range(4)]
    for i in range(4):
        ended_ago(host, f"s{i}", 1000 - i)
    host.limpetd.kill()
    monkeypatch.setenv("LIMPET_KEEP_SIZE", "1m")
    host.limpetd.start()  # the next controller looks them over as well
    wait_for(lambda: not os.path.exists(paths[0]) and not os.path.exists(paths[1]))
    assert os.path.exists(paths[2]) and os.path.exists(paths[3])


def test_what_is_open_stays(host, monkeypatch):  # noqa: F811
    host.limpetd.kill()
    monkeypatch.setenv("LIMPET_KEEP_FOR", "0.001")
    monkeypatch.setenv("LIMPET_KEEP_SIZE", "1")
    host.limpetd.start()
    session = host.client.open("open")
    path = next(iter(session.run(host.code("open('/session/artifacts/a', 'w').write('x' * 100000)")).artifacts.values()))
    put_back(host.path("sessions", "open"), DAY)
    for i in range(2):
        gone = leave(host, f"gone{i}")
        wait_for(lambda: not os.path.exists(gone))
    assert os.path.exists(path)
    session.close()
    wait_for(lambda: not os.path.exists(path))


@pytest.mark.parametrize("bound, kept", [("SIZE", {"young"}), ("FOR", set())])
def test_saved_sessions_have_the_same_bounds(host, monkeypatch, bound, kept):  # noqa: F811
    """Each is as large as the bound lets two not be, with its memory or without. The age counts through a controller that is killed."""
    sessions = {}
    for name in ("old", "young"):
        sessions[name] = host.client.open(name, ttl=0.2, ttl_action="save", disk="64m")
        sessions[name].run(host.code("open('/session/f', 'wb').write(bytes(range(256)) * 160000)")).check()
        wait_for(lambda: {row.session: row.status for row in host.client.sessions()}[name] == "saved")
    host.limpetd.kill()
    monkeypatch.setenv(f"LIMPET_KEEP_{bound}", {"SIZE": "75m", "FOR": "0.001"}[bound])
    host.limpetd.start()
    wait_for(lambda: {row.session for row in host.client.sessions()} == kept)
    with pytest.raises(limpet.NoSuchSession, match="ended at .* went beyond keep_for or keep_size"):
        sessions["old"].run("1")
    wait_for(lambda: not os.path.exists(host.files("old")))
    for name in kept:
        host.client.close_session(name)


def test_memories_go_before_sessions(host, monkeypatch):  # noqa: F811
    """Almost all that each takes is in its memory, and the bound lets one be."""
    sessions = {}
    for name in ("old", "young"):
        sessions[name] = host.client.open(name, ttl=0.2, ttl_action="save", disk="256m")
        sessions[name].run("import os\ndef hold(data):\n    while True: yield len(data)\nn, held = 41, hold(os.urandom(60 << 20))\nnext(held)").check()
        wait_for(lambda: {row.session: row.status for row in host.client.sessions()}[name] == "saved")
    memories = {name: host.files(name, ".limpet-saved-idle", "memory") for name in sessions}
    assert all(os.path.getsize(path) > 60 << 20 for path in memories.values())
    host.limpetd.kill()
    monkeypatch.setenv("LIMPET_KEEP_SIZE", "120m")
    host.limpetd.start()
    wait_for(lambda: not os.path.exists(memories["old"]))
    assert os.path.exists(memories["young"])
    result = sessions["old"].run("n")
    assert (result.result, result.state) == ("41", "kept")
    assert [missing.partition(":")[0] for missing in result.restored] == ["held"]
    result = sessions["young"].run("next(held)")
    assert (result.result, result.restored) == (str(60 << 20), [])
    for name in sessions:
        host.client.close_session(name)


def test_links_are_not_followed(host, monkeypatch, tmp_path):  # noqa: F811
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x" * 100000)
    path = leave(host, "a")
    os.symlink(outside, os.path.join(os.path.dirname(path), "link"))
    os.makedirs(host.path("outputs"), exist_ok=True)
    os.symlink(outside, host.path("outputs", "f" * 32))
    host.limpetd.kill()
    monkeypatch.setenv("LIMPET_KEEP_FOR", "0.001")
    host.limpetd.start()
    wait_for(lambda: not os.path.exists(path))
    assert (outside / "precious").exists()
    os.unlink(host.path("outputs", "f" * 32))
