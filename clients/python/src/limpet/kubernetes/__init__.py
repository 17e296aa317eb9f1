"""Sessions in pods of a Kubernetes cluster.

    from limpet.kubernetes import PodOptions, Pods

    options = PodOptions(image="registry.example.com/limpet", controller_image="registry.example.com/limpet-controller")
    with Pods("sandboxes", options) as pods, pods.open("conv-1") as session:
        print(session.run("6 * 7").result)

Needs the extra ``kubernetes``: the official client, pyzmq, and cryptography.
"""

from __future__ import annotations

try:
    import cryptography as _cryptography  # noqa: F401
    import kubernetes as _client  # noqa: F401  (the official client, not this package)
    import zmq as _zmq  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"limpet.kubernetes needs kubernetes, pyzmq and cryptography ({error}): "
        "pip install 'kubernetes>=31' 'pyzmq>=24' 'cryptography>=42'",
        name=error.name,
    ) from error

from .._async.pods import AsyncPods
from .._sync.pods import Pods
from ._pod import PodOptions

__all__ = ["AsyncPods", "PodOptions", "Pods"]

AsyncPods._counterpart, Pods._counterpart = Pods, AsyncPods
