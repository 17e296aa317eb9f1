"""Sessions in pods of a stand-in, whose containers are processes."""

import pytest

from limpet.kubernetes import AsyncPods, PodOptions, Pods

from .standin import NAMESPACE, Standin


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch, tmp_path):
    for variable in ("LIMPET_KEY", "LIMPET_SERVER_KEY", "LIMPET_SOCKET", "KUBERNETES_SERVICE_HOST", "KUBECONFIG"):
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


@pytest.fixture(scope="module")
def cluster(standin):
    """What tests see of a cluster, whichever it is."""
    return standin


@pytest.fixture
def fleet(standin, monkeypatch):
    """Makes clients of the stand-in, each as another process would."""
    made = []
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(standin.kubeconfig))

    def make(kind=Pods, **options):
        pods = kind(f"here/{NAMESPACE}", PodOptions(**{**standin.options, **options}), key=standin.key, server_key=standin.server_key)
        if kind is Pods:
            made.append(pods)
        return pods

    yield make
    for pods in made:
        for name in pods.names():
            pods.close_session(name)
        pods.close()
    for name in standin.names():
        if name.startswith("warm-"):
            standin.delete(name)
    standin.until_gone()
