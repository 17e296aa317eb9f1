"""A saved session that somebody made to run code where it is restored: it runs in the sandbox, and nowhere else."""

import pytest

# Whoever unpickles it leaves its number in the directory that it is in.
MADE = """
import os
class Evil:
    def __reduce__(self): return exec, ("open('who', 'a').write(f'{os.getpid()} ')", {"os": os})
evil, good = Evil(), 42
"""


@pytest.mark.proves("security: saved sessions that somebody else made")
def test_nothing_is_unpickled_but_by_the_sandbox(session, client, name, tmp_path, monkeypatch):
    session.run(MADE).check()
    saved = session.save(tmp_path / "evil.limpet", memory=False)  # which would come back without being unpickled
    assert saved.variables["evil"] == "saved"
    session.close()
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    with client.open(f"{name}-back", restore=tmp_path / "evil.limpet") as back:
        assert back.run("good").result == "42"
        assert back.run("sorted(set(open('who').read().split())) == [str(__import__('os').getpid())]").result == "True"
        assert back.export(here / "exported")
    assert not (here / "who").exists()
