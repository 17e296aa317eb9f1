"""Sessions whose pods are made by agent-sandbox: by its real controller, or by a stand-in."""

import threading

import pytest

import limpet
from limpet.kubernetes import _api

CLAIMS, POOLS, TEMPLATES = "sandboxclaims", "sandboxwarmpools", "sandboxtemplates"


@pytest.fixture
def claims(fleet, cluster):
    """claims(): a client whose pods are made by agent-sandbox. Its pool goes with the test."""
    made = []

    def make(**options):
        made.append(fleet(agent_sandbox=True, **options))
        return made[-1]

    yield make
    for kind, of_cluster in (("sandbox_claim", CLAIMS), ("sandbox_pool", POOLS), ("sandbox_template", TEMPLATES)):
        for name in cluster.names(of_cluster):
            made[0]._cluster.delete(kind, name)


def until_warm(cluster, but=()):
    """Returns the name of a sandbox of the pool that runs, which is that of its pod."""

    def ready():
        found = [each for each in cluster.names() if each not in but]
        return [each for each in found if _api.is_running(cluster.pod(each) or {"status": {}})]

    return cluster.until(ready, "the pool has a sandbox that runs")[0]


def test_a_session_is_a_claim_that_takes_a_sandbox_of_the_pool(claims, cluster):
    pods = claims(warm=1)
    pods.sweep()
    first = until_warm(cluster)
    assert pods.names() == []
    session = pods.open("warm", env={"GREETING": "hello"})
    assert session.run("import os; x = 41; os.environ['GREETING']").result == "'hello'"
    assert cluster.names(CLAIMS) == ["limpet-warm"]
    assert _api.session_of(cluster.pod(first)) == "warm"
    assert pods.names() == ["warm"] and [row.session for row in pods.sessions()] == ["warm"]
    other = claims(warm=1)
    assert other.attach("warm").run("x + 1").result == "42"
    assert other.open("warm").created is False
    until_warm(cluster, but=[first])
    session.close()
    cluster.until(lambda: first not in cluster.names(), "its pod is gone")
    assert cluster.names(CLAIMS) == [] and pods.names() == []
    with pytest.raises(limpet.NoSuchSession):
        pods.attach("warm")


def test_where_the_pool_is_empty_a_claim_has_a_sandbox_of_its_own(claims, cluster):
    found = []
    openers = [claims() for _ in range(3)]
    threads = [threading.Thread(target=lambda each=each: found.append(each.open("race").run("import os; id(os)").result)) for each in openers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3 and len(set(found)) == 1
    assert cluster.names(CLAIMS) == ["limpet-race"] and len(cluster.names()) == 1


def test_the_pod_that_replaces_a_deleted_one_is_not_taken_for_it(claims, cluster):
    pods = claims()
    session = pods.open("replaced")
    session.run("x = 1")
    (name,) = cluster.names()
    uid = cluster.pod(name)["metadata"]["uid"]
    cluster.delete(name)
    cluster.until(lambda: (cluster.pod(name) or {"metadata": {"uid": uid}})["metadata"]["uid"] != uid, "there is another pod")
    with pytest.raises((limpet.NoSuchSession, limpet.SessionClosed), match="its pod was deleted"):
        session.run("x")
    again = pods.open("replaced")
    assert again.created and again.run("'x' in dir()").result == "False"


def test_what_ended_or_was_never_used_is_swept(claims, cluster):
    pods = claims()
    pods.open("idle", ttl=0.5)
    (name,) = cluster.names()
    pods.open("kept").run("x = 1")
    pods._cluster.take("unused", pods._options, True)
    cluster.until_over(name)
    while cluster.names(CLAIMS) != ["limpet-kept"]:
        pods.sweep(after=0)
    other = claims(memory="400Mi")
    assert cluster.names(POOLS) and cluster.names(TEMPLATES)
    while cluster.names(POOLS) + cluster.names(TEMPLATES):
        other.sweep(after=0)
    assert pods.attach("kept").run("x").result == "1"


def test_a_cluster_without_agent_sandbox_is_told(claims, cluster, monkeypatch):
    pods = claims()
    with monkeypatch.context() as elsewhere:
        for kind in ("sandbox_claim", "sandbox_pool", "sandbox_template"):
            elsewhere.setitem(_api._PATHS, kind, ("apis/extensions.agents.x-k8s.io/v1nowhere", _api._PATHS[kind][1]))
        with pytest.raises(limpet.EngineError, match="not installed.*leave out agent_sandbox"):
            pods.open("nowhere")
