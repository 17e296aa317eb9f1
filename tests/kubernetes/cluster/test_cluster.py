"""What only a real cluster shows: its own refusals, drains, networks and deployments."""

import base64
import contextlib
import os
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

import limpet
from tests.kubernetes.standin import PROGRAMS
from tests.support.web import get

from .real import CONTROL, DNS, GATEWAY

MANY = 20


@pytest.mark.parametrize("gateways", [[], ["--gateway-image", GATEWAY]], ids=["alone", "with gateways"])
def test_the_manifest_is_taken_without_a_warning(real, gateways):
    done = subprocess.run(
        ["kubectl", "apply", "--dry-run=server", "--validate=strict", "--filename", "-"],
        input=real.manifest("sandboxes", *gateways), capture_output=True, text=True, env={**os.environ, "KUBECONFIG": real.administrator},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@contextlib.contextmanager
def without_a_policy(real):
    """Sessions may reach everything meanwhile."""
    policy = real.kubectl("get", "networkpolicy", "limpet-sessions", "--output", "yaml")
    real.kubectl("delete", "networkpolicy", "limpet-sessions")
    try:
        yield
    finally:
        real.apply(policy)


def test_a_pod_serves_only_where_its_network_is_closed(fleet, real):
    pods = fleet()
    with without_a_policy(real), pytest.raises(limpet.EngineError, match=r"this pod can connect to 10\.96\.0\.1.*set a NetworkPolicy without egress"):
        pods.open("open")
    real.until_gone()
    assert pods.open("closed").run("6 * 7").result == "42"


NEIGHBOUR = f"""\
apiVersion: v1
kind: Pod
metadata: {{name: neighbour, labels: {{app: neighbour}}}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: dns
    image: limpet.test/limpet:1
    imagePullPolicy: Never
    command: [python3, -m, http.server, "5353"]
    readinessProbe: {{tcpSocket: {{port: 5353}}, periodSeconds: 1}}
---
apiVersion: v1
kind: Service
metadata: {{name: dns}}
spec:
  selector: {{app: neighbour}}
  clusterIP: {DNS}
  ports: [{{port: 53, targetPort: 5353}}]
"""


@pytest.fixture
def neighbour(real):
    """The address of a pod which is no session and listens, as whoever answers for the DNS does."""
    real.apply(NEIGHBOUR)
    real.kubectl("wait", "--for=condition=Ready", "pod/neighbour", "--timeout=170s")
    yield real.pod("neighbour")["status"]["podIP"]
    real.kubectl("delete", "--filename", "-", input=NEIGHBOUR)


def connecting(address, port):
    """Code that says `open` where something listens."""
    return f"import socket\nsocket.create_connection(({address!r}, {port}), 2).close()\nprint('open')"


def in_neighbour(real, code):
    return real.kubectl("exec", "neighbour", "--", "python3", "-c", f"try:\n  exec({code!r})\nexcept OSError as e: print(type(e).__name__)").strip()


def test_a_pod_reaches_no_other_and_answers_clients_alone(fleet, real, neighbour):
    session = fleet().open("closed")
    controller = real.pod("limpet-closed")["status"]["podIP"], 7310
    for address, port in ((DNS, 53), (neighbour, 5353), (CONTROL, 6443)):
        if address != CONTROL:
            assert in_neighbour(real, connecting(address, port)) == "open"
        assert session.run(connecting(address, port)).error.name == "TimeoutError"
    assert in_neighbour(real, connecting(*controller)) == "TimeoutError"
    real.kubectl("label", "pod", "neighbour", "limpet.client=true")
    real.until(lambda: in_neighbour(real, connecting(*controller)) == "open", "a client is let in")
    assert in_neighbour(real, connecting(controller[0], 22)) == "TimeoutError"


def test_a_session_goes_through_limpet_egress_alone(fleet, real, neighbour, monkeypatch):
    real.until_egress()
    monkeypatch.setenv("LIMPET_EGRESS_KEY", str(real.egress_key))
    address = f"{neighbour}:5353"
    service = real.get("service", "limpet-egress")["spec"]["clusterIP"]
    session = fleet().open("behind", network={"allow": [address]})
    assert get(session, f"http://{address}/")[0] == 200
    assert session.run(connecting(neighbour, 5353)).error.name == "TimeoutError"
    strange = f"import socket\nc = socket.create_connection(({service!r}, 7311))\nc.sendall(bytes([0, 0, 0, 4]) + b'AAAA')\nc.recv(200)"
    assert "another key has sealed them" in session.run(strange).check().result
    assert in_neighbour(real, connecting(service, 7311)) == "TimeoutError"


def test_a_quota_is_told(fleet, real):
    pods = fleet()
    pods.open("first")
    real.kubectl("create", "quota", "few", "--hard=pods=1")
    real.until(lambda: real.get("quota", "few")["status"].get("used"), "the quota is counted")
    try:
        with pytest.raises(limpet.LimitReached, match="exceeded quota: few.*close sessions, or have the quota of sandboxes raised"):
            pods.open("second")
        assert pods.names() == ["first"]
    finally:
        real.kubectl("delete", "quota", "few")


def test_a_limit_of_the_namespace_is_told(fleet, real):
    real.apply(
        "{apiVersion: v1, kind: LimitRange, metadata: {name: small}, spec: {limits: [{type: Container, max: {memory: 64Mi}}]}}"
    )
    try:
        with pytest.raises(limpet.EngineError, match="maximum memory usage per Container is 64Mi"):
            fleet().open("big")
    finally:
        real.kubectl("delete", "limitrange", "small")
    assert real.names() == []


def test_a_stricter_standard_is_told(fleet, real):
    label = "pod-security.kubernetes.io/enforce"
    real.kubectl("label", "--overwrite", "namespace", "sandboxes", f"{label}=restricted")
    try:
        with pytest.raises(limpet.EngineError, match='violates PodSecurity "restricted'):
            fleet().open("refused")
    finally:
        real.kubectl("label", "--overwrite", "namespace", "sandboxes", f"{label}=baseline")
    assert real.names() == []


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"image": "limpet.test/none:1"}, limpet.ImageMissing, "limpet.test/none:1 is not there: ErrImageNeverPull"),
        ({"controller_image": "limpet.test/none:1"}, limpet.ImageMissing, "limpet.test/none:1 is not there"),
        ({"controller_image": "limpet.test/pause:1"}, limpet.EngineError, "limpetd"),
        ({"memory": "900Gi"}, limpet.EngineError, "no node takes the pod: .*Insufficient memory"),
        ({"volume": "900Gi"}, limpet.EngineError, "no node takes the pod: .*PersistentVolumeClaim"),
        ({"runtime_class": "none"}, limpet.EngineError, 'RuntimeClass "none" not found'),
    ],
)
def test_a_pod_that_cannot_start_is_told_and_removed(fleet, real, options, error, says):
    with pytest.raises(error, match=says):
        fleet(**options).open("amiss")
    real.until_gone()


def test_a_pod_that_agent_sandbox_cannot_make_is_told(fleet, real):
    with pytest.raises(limpet.ImageMissing, match="limpet.test/none:1 is not there"):
        fleet(agent_sandbox=True, image="limpet.test/none:1").open("amiss")
    real.until_gone()
    real.kubectl("create", "quota", "none", "--hard=pods=0")
    try:
        with pytest.raises(limpet.LimitReached, match="exceeded quota: none"):
            fleet(agent_sandbox=True).open("second")
    finally:
        real.kubectl("delete", "quota", "none")
        real.kubectl("delete", "sandboxwarmpools,sandboxtemplates", "--all")


def test_code_has_no_token_and_no_network_of_the_cluster(fleet):
    session = fleet().open("inside")
    code = "import os\n[n for n in os.environ if 'KUBERNETES' in n and 'SERVICE' not in n], os.path.exists('/var/run/secrets')"
    assert session.run(code).result == "([], False)"
    assert session.run("open('/etc/x', 'w')").error.name in ("OSError", "PermissionError")


def test_memory_that_is_used_up_rolls_back(fleet):
    session = fleet().open("hungry")
    session.run("x = 1")
    result = session.run("y = []\nwhile True: y.append(b'x' * 10_000_000)")
    assert result.status in ("oom", "error")
    assert session.run("x").result == "1"


def test_sessions_of_a_drained_node_come_back(fleet, real):
    pods = fleet(volume="1Gi", memory="256Mi")

    def begin(number):
        session = pods.open(f"drained-{number}")
        session.run(f"x = {number}; ballast = bytearray(10_000_000)")
        return session

    with ThreadPoolExecutor(4) as some:
        sessions = list(some.map(begin, range(MANY)))
        real.kubectl("drain", "node", "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=150s")
        assert real.names() == []
        real.kubectl("uncordon", "node")
        results = list(some.map(lambda session: session.run("x, len(ballast)"), sessions))
    assert [result.result for result in results] == [f"({number}, 10000000)" for number in range(MANY)]
    assert {(result.state, tuple(result.restored or ())) for result in results} == {("kept", ())}


def test_a_session_without_time_to_be_saved_is_not_replaced(fleet, real):
    session = fleet(volume="1Gi").open("forced")
    session.run("x = 1")
    real.kubectl("delete", "pod", "limpet-forced", "--grace-period=0", "--force")
    with pytest.raises((limpet.NoSuchSession, limpet.SessionClosed)):
        assert session.run("'x' in dir()").result == "True"
        raise limpet.NoSuchSession("its controller has saved it all the same")


@contextlib.contextmanager
def stopped(program):
    (pid,) = map(int, subprocess.run(["pgrep", "--exact", program], capture_output=True, text=True, check=True).stdout.split())
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_open_sessions_go_on_without_the_api_server(fleet):
    pods = fleet()
    session = pods.open("away")
    session.run("x = 41")
    with stopped("kube-apiserver"):
        assert session.run("x + 1").result == "42"
        with pytest.raises(limpet.Unavailable, match="does not answer"):
            pods.open("new")
    assert session.run("x").result == "41"


CONTROLLER = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: limpet}
spec:
  selector: {matchLabels: {app: limpet}}
  template:
    metadata: {labels: {app: limpet}}
    spec:
      securityContext: {runAsUser: 1000}
      containers:
      - name: limpet
        image: limpet.test/limpet:1
        imagePullPolicy: Never
        command: [limpetd, --engine, local]
        env:
        - {name: HOME, value: /tmp}
        - {name: XDG_RUNTIME_DIR, value: /tmp}
        readinessProbe: {exec: {command: [limpet, ls]}, timeoutSeconds: 10}
"""


def test_the_controller_of_a_deployment_is_dialled(real, monkeypatch):
    real.apply(CONTROLLER)
    try:
        real.kubectl("rollout", "status", "deployment/limpet", "--timeout=170s")
        monkeypatch.setenv("KUBECONFIG", real.administrator)
        with limpet.Client("kubernetes://here/sandboxes") as client, client.open("dialled") as session:
            assert session.run("x = 41; x + 1").result == "42"
            session.put(b"put", "f.txt")
            assert session.run("open('f.txt').read()").result == "'put'"
        said = subprocess.run(
            [PROGRAMS / "limpet", "--connect", "kubernetes://here/sandboxes", "run", "-c", "6 * 7"], capture_output=True, text=True, timeout=170
        )
        assert (said.returncode, said.stdout.strip()) == (0, "42"), said.stderr
        with pytest.raises(limpet.Unavailable, match="nowhere"), limpet.Client("kubernetes://here/nowhere") as client:
            client.open("lost")
    finally:
        real.kubectl("delete", "deployment", "limpet")


AGENTS = "agents"


@pytest.fixture(scope="module")
def gateways(real):
    """A namespace with two gateways. Returns clients of the service and of each gateway."""
    real.apply(real.manifest(AGENTS, "--gateway-image", GATEWAY, "--gateways", "2"), AGENTS)
    real.kubectl("rollout", "status", "deployment/limpet-gateway", "--timeout=170s", namespace=AGENTS)
    key = base64.b64decode(real.get("secret", "limpet-gateway", namespace=AGENTS)["data"]["api_key"]).decode()
    service = real.get("service", "limpet-gateway", namespace=AGENTS)["spec"]["clusterIP"]
    with contextlib.ExitStack() as stack:

        def client(address):
            made = httpx.Client(base_url=f"http://{address}", headers={"X-API-Key": key}, timeout=120, trust_env=False)
            return stack.enter_context(made)

        http = client(service)
        real.until(lambda: answers(http), "the service has gateways")
        yield http, lambda: {name: client(f"{address}:8000") for name, address in addresses(real).items()}
    real.kubectl("delete", "namespace", AGENTS, "--timeout=170s")


def answers(http):
    with contextlib.suppress(httpx.TransportError):
        return http.get("/ready").status_code == 200


def addresses(real):
    found = real.get("pods", "--selector", "app.kubernetes.io/component=gateway", namespace=AGENTS)["items"]
    ready = [each for each in found if "deletionTimestamp" not in each["metadata"]]
    ready = [each for each in ready if any(part["ready"] for part in each["status"].get("containerStatuses", []))]
    return {each["metadata"]["name"]: each["status"]["podIP"] for each in ready}


def opened(http, name):
    done = http.post("/v1/sessions", json={"name": name})
    assert done.status_code in (200, 201), done.text


def ran(http, name, code, **more):
    done = http.post(f"/v1/sessions/{name}/run", json={"code": code, **more})
    assert done.status_code == 200, done.text
    return done.json()


def test_gateways_of_a_deployment_share_sessions(gateways):
    service, each = gateways
    opened(service, "shared")
    ran(service, "shared", "x = 41")
    first, second = each().values()
    assert ran(first, "shared", "x + 1")["result"] == "42"
    assert ran(second, "shared", "x + 2")["result"] == "43"
    assert [row["session"] for row in second.get("/v1/sessions").json()["sessions"]] == ["shared"]
    assert service.delete("/v1/sessions/shared").status_code == 204


def test_a_gateway_whose_pod_is_deleted_takes_nothing_along(gateways, real):
    service, each = gateways
    opened(service, "survives")
    ran(service, "survives", "n = 0")
    (name, first), (_, second) = each().items()
    run_id, code = "5" * 32, "import time\nn += 1\nopen('begun', 'w').close()\ntime.sleep(3)\nn"
    asking = threading.Thread(target=attempted, args=(first, "survives", code, run_id))
    asking.start()
    real.until(lambda: second.get("/v1/sessions/survives/files/begun").status_code == 200, "the call runs")
    real.kubectl("delete", "pod", name, "--grace-period=0", "--force", namespace=AGENTS)
    asking.join()
    result = ran(second, "survives", code, run_id=run_id)
    assert (result["result"], result["state"]) == ("1", "kept")
    real.until(lambda: len(addresses(real)) == 2, "the deployment has another gateway")
    assert service.delete("/v1/sessions/survives").status_code == 204


def attempted(http, name, code, run_id):
    """By a gateway that may end meanwhile."""
    with contextlib.suppress(httpx.TransportError):
        http.post(f"/v1/sessions/{name}/run", json={"code": code, "run_id": run_id})
