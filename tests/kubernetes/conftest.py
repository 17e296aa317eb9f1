"""Sessions in pods of a stand-in, whose containers are processes; or of a real cluster, where LIMPET_TEST_CLUSTER is set."""

import os

import pytest

from limpet.kubernetes import AsyncPods, PodOptions, Pods
from tests.support.gateway import Gateway

from .cluster.real import Real
from .standin import NAMESPACE, Standin

REAL = bool(os.environ.get("LIMPET_TEST_CLUSTER"))


def is_for_the_other(item):
    """Whether a test needs the kind of cluster that is not there."""
    return "standin" in item.fixturenames if REAL else item.path.parent.name == "cluster"


def pytest_collection_modifyitems(config, items):
    left = [item for item in items if is_for_the_other(item)]
    items[:] = [item for item in items if item not in left]
    config.hook.pytest_deselected(items=left)


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch, tmp_path):
    for variable in ("LIMPET_KEY", "LIMPET_SERVER_KEY", "LIMPET_EGRESS_KEY", "LIMPET_SOCKET", "KUBERNETES_SERVICE_HOST", "KUBECONFIG"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("LIMPET_ARTIFACTS", str(tmp_path / "artifacts"))


@pytest.fixture(scope="module")
def standin():
    standin = Standin()
    try:
        yield standin
        standin.until_gone()
    finally:
        standin.stop()


@pytest.fixture(scope="session")
def real():
    return Real()


@pytest.fixture(scope="module")
def cluster(request):
    """What tests see of a cluster, whichever it is."""
    return request.getfixturevalue("real" if REAL else "standin")


@pytest.fixture
def fleet(cluster, monkeypatch):
    """Makes clients of the cluster, each as another process would."""
    made = []
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(cluster.kubeconfig))

    def make(kind=Pods, **options):
        pods = kind(f"here/{NAMESPACE}", PodOptions(**{**cluster.options, **options}), key=cluster.key, server_key=cluster.server_key)
        if kind is Pods:
            made.append(pods)
        return pods

    yield make
    for pods in made:
        for name in pods.names():
            pods.close_session(name)
        pods.close()
    for name in cluster.names():
        if name.startswith("warm-"):
            cluster.delete(name)
    cluster.until_gone()


@pytest.fixture(scope="module")
def gateways(standin, tmp_path_factory):
    """gateways(): one more of them, as the manifest has them. They share their users, `anna` and `ben`, and nothing else."""
    made, users = [], tmp_path_factory.mktemp("users")
    secret = standin.manifest["Secret", "limpet-gateway"]["stringData"]
    (users / "keys").write_text(secret["keys"])
    container = standin.manifest["Deployment", "limpet-gateway"]["spec"]["template"]["spec"]["containers"][0]
    places = {"/etc/limpet/users": str(users), "/etc/limpet/egress/key": str(standin.egress_key), "/etc/limpet/client/key_secret": str(standin.key), "0.0.0.0": "127.0.0.1"}
    environment = {**standin.manifest["ConfigMap", "limpet-pods"]["data"], "LIMPET_SERVER_KEY": standin.server_key}
    for entry in container["env"]:
        for there, here in places.items():
            entry["value"] = entry.get("value", "").replace(there, here)
        environment.setdefault(entry["name"], entry["value"])
    environment["LIMPET_SERVE_FLEET"] = environment["LIMPET_SERVE_FLEET"].replace("://", "://here/")
    environment["KUBECONFIG"] = str(standin.kubeconfig)

    def start(*options, **more):
        directory = tmp_path_factory.mktemp("gateway")
        own = {**environment, **more, "LIMPET_SERVE_STATE_DIR": str(directory / "state")}
        gateway = Gateway("/nowhere", directory, *options, environment=own)
        if not made:
            start.keys = {"anna": secret["api_key"], "ben": gateway.key("create", "ben")}
        made.append(gateway)
        return gateway.start()

    yield start
    for gateway in made:
        gateway.stop()
