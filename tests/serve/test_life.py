"""The gateway and the controller end, and begin again."""

import os
import signal
import ssl
import subprocess
import sys
import threading

import httpx
import pytest

from tests.support.gateway import events, until

SLOW = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.02)\nn = globals().get('n', 0) + 1\nprint('counted', n)\nn"


def let_go(limpetd, name):
    """Ends the code, also where there is no gateway."""
    with limpetd.client() as client:
        client.attach(name).files.write("go", b"")


def started(http, session, run_id, code=SLOW):
    """The call runs, and another thread waits for its record."""
    answers = []

    def ask():
        answers.append(http.post(f"{session}/run", json={"code": code, "run_id": run_id}))

    thread = threading.Thread(target=ask)
    thread.start()
    until(lambda: http.get(f"/v1/runs/{run_id}?timeout=0").status_code == 202, "the call runs")
    return thread, answers


def test_it_ends_when_what_runs_has_ended(own_gateway, limpetd, name):
    gateway = own_gateway(whole=True)
    with gateway.client() as http, gateway.client() as looking:
        http.post("/v1/sessions", json={"name": name})
        session, run_id = f"/v1/sessions/{name}", os.urandom(16).hex()
        with looking.stream("GET", f"{session}/events") as stream:
            thread, answers = started(http, session, run_id)
            gateway.process.send_signal(signal.SIGTERM)
            let_go(limpetd, name)
            heard = [kind for _, kind, _ in events(stream)]  # ends, though nobody has closed the session
        thread.join(60)
        assert answers[0].json()["stdout"] == "counted 1\n" and "run" in heard
    assert gateway.process.wait(60) in (0, -signal.SIGTERM)


def test_what_takes_longer_is_found_at_the_next_gateway(own_gateway, name):
    gateway = own_gateway()
    with gateway.client() as http:
        http.post("/v1/sessions", json={"name": name})
        session, run_id = f"/v1/sessions/{name}", os.urandom(16).hex()
        with http.stream(
            "POST", f"{session}/run", json={"code": "print('one', flush=True); input(); 7", "input": True, "run_id": run_id},
            headers={"Accept": "text/event-stream"},
        ) as stream:  # fmt: skip
            next(kind for _, kind, _ in events(stream) if kind == "ask")
            gateway.kill()
    gateway.start()
    with gateway.client() as http:
        assert http.get(f"/v1/runs/{run_id}?timeout=0").status_code == 202
        body = {"code": "print('one', flush=True); input(); 7", "input": True, "run_id": run_id}
        done = None
        with http.stream("GET", f"/v1/runs/{run_id}/events", headers={"Last-Event-ID": "00000000-1"}) as other:
            with http.stream("POST", f"{session}/run", json=body, headers={"Accept": "text/event-stream"}) as stream:
                for _, kind, data in events(stream):
                    if kind == "ask":
                        said = {"run_id": run_id, "ask": data["ask"], "line": "x"}
                        assert http.post(f"{session}/answers", json=said).status_code == 204
                    done = kind, data
            assert done[0] == "result" and (done[1]["result"], done[1]["stdout"]) == ("7", "one\n")
            assert [kind for _, kind, _ in events(other)][-1] == "result"
        http.delete(session)


def test_a_gateway_that_is_killed_loses_no_result(own_gateway, limpetd, name):
    gateway = own_gateway()
    with gateway.client() as http:
        http.post("/v1/sessions", json={"name": name})
        session, run_id = f"/v1/sessions/{name}", os.urandom(16).hex()
        alone = http.post("/v1/run", json={"code": "'alone'"}).json()
        body = {"code": SLOW, "run_id": run_id}

        def ask():
            with pytest.raises(httpx.TransportError):
                http.post(f"{session}/run", json=body)

        thread = threading.Thread(target=ask)
        thread.start()
        until(lambda: http.get(f"/v1/runs/{run_id}?timeout=0").status_code == 202, "the call runs")
        gateway.kill()
        thread.join(60)
    gateway.start()
    let_go(limpetd, name)
    with gateway.client() as http:
        assert http.post(f"{session}/run", json=body).json()["result"] == "1"
        assert http.get(f"/v1/runs/{run_id}").json()["stdout"] == "counted 1\n"
        assert http.get(f"/v1/runs/{alone['run_id']}").json() == alone
        assert http.post(f"{session}/run", json={"code": "n"}).json()["result"] == "1"
        http.delete(session)


def test_a_controller_that_is_killed_loses_no_result(own_limpetd, own_gateway, name):
    own_limpetd.start()
    gateway = own_gateway(socket=own_limpetd.socket)
    with gateway.client() as http:
        http.post("/v1/sessions", json={"name": name})
        session, run_id = f"/v1/sessions/{name}", os.urandom(16).hex()
        http.post(f"{session}/run", json={"code": "x = 41"})
        thread, answers = started(http, session, run_id)
        own_limpetd.kill()
        own_limpetd.start()
        let_go(own_limpetd, name)
        thread.join(120)
        assert answers[0].status_code == 200 and answers[0].json()["stdout"] == "counted 1\n"
        assert http.get(f"/v1/runs/{run_id}").json()["result"] == "1"
        assert http.post(f"{session}/run", json={"code": "x, n"}).json()["result"] == "(41, 1)"
        http.delete(session)


def test_without_a_controller(own_gateway, tmp_path):
    gateway = own_gateway(socket=str(tmp_path / "nobody"))
    with gateway.client() as http:
        assert http.get("/health").status_code == 200
        answer = http.get("/ready")
        assert (answer.status_code, answer.json()["name"]) == (503, "Unavailable") and answer.headers["retry-after"]


def test_tls(own_gateway, tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "1",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    gateway = own_gateway("--certificate", str(certificate), "--certificate-key", str(key))
    context = ssl.create_default_context(cafile=str(certificate))
    with gateway.client(verify=context) as http:
        assert str(http.base_url).startswith("https://") and http.get("/ready").status_code == 200
        assert http.post("/v1/run", json={"code": "6 * 7"}).json()["result"] == "42"


def test_a_certificate_that_is_none(own_gateway, tmp_path):
    (tmp_path / "c.pem").write_text("nothing")
    gateway = own_gateway(start=False)
    command = [sys.executable, "-W", "ignore", "-m", "limpet.serve", "--port", "0", "--certificate", str(tmp_path / "c.pem")]
    done = subprocess.run(command, env=gateway.environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "certificate" in done.stderr


def test_a_port_that_is_taken(gateway, own_gateway):
    other = own_gateway(start=False)
    command = [sys.executable, "-W", "ignore", "-m", "limpet.serve", "--port", str(gateway.port)]
    done = subprocess.run(command, env=other.environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and f"port {gateway.port}" in done.stderr
