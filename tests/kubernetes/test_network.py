"""Rules and bindings of sessions in pods: through limpet-egress, to a server where pods find this machine."""

import hashlib
import json

import pytest

import limpet
from limpet.kubernetes import _egress
from tests.support.web import GET, get, serving

SECRET = "Bearer top-secret"
SEALED = (
    "hKluzTZsowkgbQzrL/syQbZHQtDi1DK98DM6nHANxnMKO7QuU3cefKLzkkpWzD+tH1am+8y9"
    "GaYG+U4oiYknqKK+SSSmDyhILgSQMGU7T4xsuV/LTgP4xIJqtto="
)


@pytest.fixture
def server(cluster):
    with serving(host=cluster.address) as server:
        yield server


@pytest.fixture
def reaching(cluster, fleet, monkeypatch):
    """Makes clients that have the key of limpet-egress."""
    cluster.until_egress()
    monkeypatch.setenv("LIMPET_EGRESS_KEY", str(cluster.egress_key))
    return fleet


@pytest.fixture
def bindings(server):
    return {"api": {"url": f"http://{server.address}/v1", "headers": {"Authorization": SECRET}}}


@pytest.mark.proves("security: reaching the network")
def test_a_pod_reaches_what_a_rule_names_and_nothing_else(reaching, server):
    with reaching().open("net", network={"allow": [server.address]}) as session:
        status, text = get(session, f"http://{server.address}/a?b=c")
        assert (status, json.loads(text)["path"]) == (200, "/a?b=c")
        status, text = get(session, "http://10.0.0.1/")
        assert status == 403 and text.startswith("10.0.0.1:80 is not allowed in this session")
        status, text = get(session, "https://example.org/")
        assert status == 0 and "403 Forbidden: example.org:443 is not allowed in this session" in text
        assert session.options["network"] == {"allow": [server.address]}
    assert server.requests == ["/a?b=c"]


def test_bodies_go_both_ways(reaching, server):
    code = f"{GET}\nbody = os.urandom(5 << 20)\njson.loads(get('http://{server.address}/up', body)[1])['size'], len(get('http://{server.address}/bytes/5000000')[1])"
    with reaching().open("bodies", network={"allow": [server.address]}) as session:
        assert session.run(code).check().result == f"({5 << 20}, 5000000)"


def test_a_binding_adds_a_key_that_is_not_in_the_pod(reaching, standin, server, bindings):
    with reaching().open("bound", bindings=bindings) as session:
        # The server says what it was sent: results are in the pod, too.
        code = f"{GET}\nimport hashlib\nsaid = json.loads(get('http://api.limpet/models')[1])\nsaid['path'], hashlib.sha256(said['headers']['authorization'].encode()).hexdigest()"
        assert session.run(code).check().result == repr(("/v1/models", hashlib.sha256(SECRET.encode()).hexdigest()))
        assert set(session.options["bindings"]["egress"]) == {"url"}
        pod = standin.running["limpet-bound"]
        read = [path.read_bytes() for place in (pod.directory, pod.state) for path in place.rglob("*") if path.is_file()]
        assert len(read) > 5
        assert not [each for each in read if b"top-secret" in each]


def test_a_binding_reaches_its_server(reaching, server, bindings):
    with reaching().open("bound", bindings=bindings) as session:
        assert json.loads(get(session, "http://api.limpet/x")[1])["headers"]["authorization"] == SECRET
        assert get(session, f"http://{server.address}/")[0] == 403


def test_rules_are_changed(reaching, server, bindings):
    with reaching().open("changed") as session:
        session.set_network({"allow": [server.address]}, bindings)
        session.run("1")  # which finds the proxy
        assert get(session, f"http://{server.address}/")[0] == 200
        session.set_network("none", bindings)
        assert get(session, f"http://{server.address}/")[0] == 403
        assert get(session, "http://api.limpet/")[0] == 200
        session.set_network("none", {})
        assert get(session, "http://api.limpet/")[0] == 403
        for half in ({"network": "none"}, {"bindings": bindings}):
            with pytest.raises(limpet.BadRequest, match="sealed together: give both"):
                session.set_network(**half)


def test_who_comes_second_has_the_same_rules(reaching, server, bindings):
    rules = {"network": {"allow": [server.address]}, "bindings": bindings}
    ours = reaching().open("shared", **rules)
    assert reaching().open("shared", **rules).created is False
    bindings["api"]["headers"]["Authorization"] = "Bearer another"
    with pytest.raises(limpet.OptionsDiffer, match="bindings"):
        reaching().open("shared", **rules)
    assert get(ours, "http://api.limpet/")[0] == 200


def test_a_controller_that_is_started_again_knows_them(reaching, cluster, server):
    session = reaching().open("adopted", network={"allow": [server.address]})
    session.run("1")
    cluster.kill("limpet-adopted", "controller")
    assert get(session, f"http://{server.address}/")[0] == 200


def test_a_session_that_wakes_has_them(reaching, server, bindings):
    session = reaching(volume="1Gi").open("asleep", bindings=bindings)
    session.run("x = 1")
    session.sleep()
    assert get(session, "http://api.limpet/")[0] == 200
    session.close()


def test_it_may_be_started_again(reaching, standin, server):
    session = reaching().open("again", network={"allow": [server.address]})
    assert get(session, f"http://{server.address}/")[0] == 200
    standin.stop_egress()
    status, text = get(session, f"http://{server.address}/")
    assert status == 502 and "cannot be connected to" in text
    standin.start_egress()
    standin.until_egress()
    assert get(session, f"http://{server.address}/")[0] == 200


def test_another_key_opens_nothing(reaching, standin, server, tmp_path):
    session = reaching().open("stranger", network={"allow": [server.address]})
    other = tmp_path / "key"
    other.write_text("0" * 64)
    standin.start_egress(other)
    standin.until_egress()
    try:
        code = f"import http.client as h; c = h.HTTPConnection('127.0.0.1', int(os.environ['http_proxy'].rpartition(':')[2])); c.request('GET', 'http://{server.address}/'); c.getresponse().reason"
        assert "another key has sealed them" in session.run(f"import os\n{code}").check().result
    finally:
        standin.start_egress()
    assert server.requests == []


def test_without_limpet_egress_rules_are_refused(fleet, cluster, server, bindings, monkeypatch):
    for options in ({"network": {"allow": [server.address]}}, {"bindings": bindings}):
        with pytest.raises(limpet.BadRequest, match="limpet kubernetes manifest --egress"):
            fleet().open("refused", **options)
    monkeypatch.setenv("LIMPET_EGRESS_KEY", str(cluster.egress_key))
    monkeypatch.setattr(_egress, "EGRESS", "limpet-nowhere")
    with pytest.raises((limpet.BadRequest, limpet.Denied), match="limpet kubernetes manifest"):
        fleet().open("refused", bindings=bindings)
    assert cluster.names() == []
    with fleet().open("plain", network="none") as session:
        assert session.run("1").result == "1"


def test_what_is_sealed_is_what_limpet_egress_opens():
    """tests/unit/test_sealed.c opens it."""
    rules = {"label": "conv-1", "allow": ["example.org:443"], "bindings": {"a": {"url": "http://b", "headers": {"X": "y"}}}}
    assert _egress._sealed(b"0123456789abcdef0123456789abcdef", rules) == SEALED


