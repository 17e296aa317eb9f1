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


@pytest.fixture
def fleet(standin, monkeypatch):
    """Makes clients of the stand-in, each as another process would."""
    made = []
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(standin.kubeconfig))

    def make(kind=Pods, **options):
        named = {"image": "sandbox", "controller_image": "controller", "network_proof": "trust", **options}
        pods = kind(f"here/{NAMESPACE}", PodOptions(**named), key=standin.key, server_key=standin.server_key)
        if kind is Pods:
            made.append(pods)
        return pods

    yield make
    for pods in made:
        for name in pods.names():
            pods.close_session(name)
        pods.close()
    standin.until_gone()
