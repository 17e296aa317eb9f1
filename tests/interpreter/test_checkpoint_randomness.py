"""Random numbers: after a rollback the same that would have come, in a branch others."""

import pytest

GLOBAL = """
[random.random(), random.gauss(0, 1), random.gauss(0, 1), random.getrandbits(64), random.sample(range(99), 5)]"""


def test_a_rollback_repeats_what_would_have_come(session):
    session.run("import random; random.seed(7); random.random(); random.gauss(0, 1)")  # one gauss is kept
    frozen = session.checkpoint()
    expected = session.value(GLOBAL)
    assert frozen.restore().value(GLOBAL) == expected
    assert frozen.restore().checkpoint().restore().value(GLOBAL) == expected


def test_an_unseeded_generator_too(session):
    session.run("import random")
    frozen = session.checkpoint()
    assert frozen.restore().value(GLOBAL) == session.value(GLOBAL)


def test_branches_differ(session):
    session.run("import random; random.seed(7); random.gauss(0, 1)")
    frozen = session.checkpoint()
    peers = [session, frozen.restore(True), frozen.restore(True), frozen.restore()]
    seen = [peer.value(GLOBAL) for peer in peers]
    assert seen[0] == seen[3]
    for i in range(5):
        assert len({str(values[i]) for values in seen[:3]}) == 3


def test_generators_of_cells_stay(session):
    session.run("import random; mine = random.Random(3)")
    frozen = session.checkpoint()
    assert frozen.restore(True).value("mine.random()") == frozen.restore().value("mine.random()")


def test_random_that_is_imported_later(session):
    frozen = session.checkpoint()
    first, second = (frozen.restore(True).value("import random; random.random()") for _ in range(2))
    assert first != second


@pytest.mark.parametrize(
    "spoil", ["random._inst = None", "sys.modules['random'] = 5", "sys.modules['_random'] = 5"]
)
def test_a_spoilt_module_does_no_harm(session, spoil):
    session.run(f"import random, sys; x = 1; {spoil}")
    frozen = session.checkpoint()
    assert frozen.restore().value("x") == frozen.restore(True).value("x") == 1


def test_numpy(session):
    if session.run("import numpy").error:
        pytest.skip("there is no NumPy")
    session.run("numpy.random.seed(3); generator = numpy.random.default_rng(4)")
    code = "numpy.random.rand(3).tolist() + numpy.random.normal(size=3).tolist()"
    frozen = session.checkpoint()
    live, back, branch, other = (
        peer.value(code) for peer in (session, frozen.restore(), frozen.restore(True), frozen.restore(True))
    )
    assert live == back
    assert not set(live) & set(branch) and not set(branch) & set(other) and not set(live) & set(other)
    assert frozen.restore(True).value("generator.random()") == session.value("generator.random()")


@pytest.mark.parametrize(
    "code",
    [
        "import uuid; uuid.uuid4().hex",
        "import secrets; secrets.token_hex()",
        "import ssl; ssl.RAND_bytes(16)",
        "import os; os.urandom(16)",
        "import tempfile; next(tempfile._get_candidate_names())",
        "import random; random.SystemRandom().random()",
    ],
)
def test_what_must_never_repeat(session, code):
    session.run(code)
    frozen = session.checkpoint()
    peers = [session, frozen.restore(), frozen.restore(), frozen.restore(True)]
    assert len({peer.value(code) for peer in peers}) == 4
