"""`progress=True`: tqdm where it is installed, one line otherwise."""

import sys
import types

import pytest
from limpet._copying import _progress

STEPS = (500_000, 1_000_000), (1_000_000, 1_000_000)


class Tqdm:
    made = None

    def __init__(self, desc, total, unit, unit_scale):
        self.desc, self.total, self.n, self.closed = desc, total, 0, False
        Tqdm.made = self

    def update(self, more):
        self.n += more

    def close(self):
        self.closed = True


def copy(progress, told=None):
    with _progress.shown(progress, "put a", told and (lambda *step: told.append(step))) as tell:
        for step in STEPS:
            if tell is not None:
                tell(*step)


def test_with_tqdm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=Tqdm))
    copy(True)
    assert (Tqdm.made.desc, Tqdm.made.n, Tqdm.made.total, Tqdm.made.closed) == ("put a", 1_000_000, 1_000_000, True)


@pytest.mark.parametrize("terminal, said", [
    (False, "put a: 1.0 of 1.0 MB\n"), (True, "\rput a: 0.5 of 1.0 MB\rput a: 1.0 of 1.0 MB\n"),
])
def test_without(monkeypatch, capsys, terminal, said):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    told = [None]
    copy(True, told)
    assert capsys.readouterr().err == said and told[1:] == list(STEPS)
    copy(False)
    assert capsys.readouterr().err == ""
