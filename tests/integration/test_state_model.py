"""Random sequences of calls, checkpoints, rollbacks, branches, fatal cells, sleeps, forks, moves and kills, held against
the model of state_model.py and life_model.py.

LIMPET_MODEL_SEED is where the steps begin, and LIMPET_MODEL_LENGTH how many they are.
A sequence that fails is printed; saved as a file of one Python list it is replayed by LIMPET_MODEL_REPLAY.
"""

import ast
import collections
import os
import random

import pytest

from .killed import host  # noqa: F401
from .life_model import LifeModel


def replayed():
    path = os.environ.get("LIMPET_MODEL_REPLAY")
    if not path:
        return None
    with open(path, encoding="utf-8") as file:
        return ast.literal_eval(file.read())


MODES = ["auto", "always", "off"]


@pytest.mark.parametrize(("mode", "length"), [("any", 60), *(pytest.param(mode, 300, marks=pytest.mark.long) for mode in MODES)])
def test_sessions_do_what_the_model_says(host, mode, length):
    seed = int(os.environ.get("LIMPET_MODEL_SEED", random.randrange(1 << 32)))
    length = int(os.environ.get("LIMPET_MODEL_LENGTH", length))
    mode = random.Random(seed).choice(MODES) if mode == "any" else mode
    generator, steps = random.Random(seed), replayed()
    model = LifeModel(host, mode)
    try:
        for step in steps or (model.choose(generator) for _ in range(length)):
            model.apply(step)
    except BaseException:
        print(f"mode {mode}, seed {seed}; to replay:\n{model.steps!r}")
        raise
    finally:
        print(dict(collections.Counter(step[0] for step in model.steps)))
    model.close()
