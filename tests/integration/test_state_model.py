"""Random sequences of calls, checkpoints, rollbacks, branches, fatal cells and controller kills, held against
the model of state_model.py.

LIMPET_MODEL_SEED is where the steps begin.
A sequence that fails is printed; saved as a file of one Python list it is replayed by LIMPET_MODEL_REPLAY.
"""

import ast
import os
import random

import pytest

from .state_model import Model

def replayed():
    path = os.environ.get("LIMPET_MODEL_REPLAY")
    if not path:
        return None
    with open(path, encoding="utf-8") as file:
        return ast.literal_eval(file.read())


@pytest.mark.parametrize("length", [80, pytest.param(300, marks=pytest.mark.long)])
@pytest.mark.parametrize("mode", ["auto", "always", "off"])
def test_the_session_does_what_the_model_says(own_limpetd, name, mode, length):
    own_limpetd.start()
    seed = int(os.environ.get("LIMPET_MODEL_SEED", random.randrange(1 << 32)))
    generator, steps = random.Random(seed), replayed()
    with own_limpetd.client() as client:
        model = Model(own_limpetd, client, name, mode)
        try:
            for step in steps or (model.choose(generator) for _ in range(length)):
                model.apply(step)
        except BaseException:
            print(f"mode {mode}, seed {seed}; to replay:\n{model.steps!r}")
            raise
        model.trunk.session.close()
    assert own_limpetd.stop() == 0
    assert own_limpetd.leftovers() == {}
