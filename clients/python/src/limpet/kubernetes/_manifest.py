"""The objects that a namespace needs before sessions can be opened there, as YAML that people read."""

from __future__ import annotations

from typing import NamedTuple

from ._pod import PORT, SECRET

CLIENT = "limpet-client"
CLIENT_LABEL = "limpet.client"

_TEXT = """\
# Sessions of Limpet in pods: made by `limpet kubernetes manifest`.
apiVersion: v1
kind: Namespace
metadata:
  name: {namespace}
  labels:
    pod-security.kubernetes.io/enforce: baseline
---
# The keys of controllers, which the pods of sessions have, and whom they let in.
apiVersion: v1
kind: Secret
metadata:
  name: {secret}
  namespace: {namespace}
type: Opaque
stringData:
  key_secret: |
{server_file}
  authorized_keys: |
    {client_public} owner=0 name=client
---
# The key of clients, for whoever opens sessions: LIMPET_KEY is the path of key_secret, LIMPET_SERVER_KEY is server_key.
apiVersion: v1
kind: Secret
metadata:
  name: {client}
  namespace: {namespace}
type: Opaque
stringData:
  key_secret: |
{client_file}
  server_key: "{server_public}"
---
# Code in a session reaches nothing. Its node always reaches it, and clients reach its controller.
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: limpet-sessions
  namespace: {namespace}
spec:
  podSelector:
    matchLabels:
      app.kubernetes.io/name: limpet
      app.kubernetes.io/component: session
  policyTypes: [Ingress, Egress]
  egress: []
  ingress:
  - from:
    - podSelector:
        matchLabels:
          {label}: "true"
    ports:
    - port: {port}
---
# Rights of whoever opens sessions. None to run programs in pods, or to read logs, secrets or nodes.
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {client}
  namespace: {namespace}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {client}
  namespace: {namespace}
rules:
- apiGroups: [""]
  resources: [pods, persistentvolumeclaims]
  verbs: [create, delete, get, list]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {client}
  namespace: {namespace}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {client}
subjects:
- kind: ServiceAccount
  name: {client}
  namespace: {namespace}
"""


class Pair(NamedTuple):
    """Two keys, as text of 40 characters."""

    public: str
    secret: str


def manifest(namespace: str, server: Pair, client: Pair) -> str:
    """The YAML for a namespace, with the keys of both sides."""
    return _TEXT.format(
        namespace=namespace,
        secret=SECRET,
        client=CLIENT,
        label=CLIENT_LABEL,
        port=PORT,
        server_file=_file(server),
        client_file=_file(client),
        client_public=client.public,
        server_public=server.public,
    )


def _file(pair: Pair) -> str:
    """As `limpet keygen` writes it."""
    lines = ("metadata", "curve", f'    public-key = "{pair.public}"', f'    secret-key = "{pair.secret}"')
    return "\n".join(f"    {line}" for line in lines)
