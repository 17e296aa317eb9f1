"""The objects that a namespace needs before sessions can be opened there, as YAML that people read."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from typing import NamedTuple

from ._egress import EGRESS, EGRESS_PORT
from ._pod import PORT, SANDBOXES, SECRET, VARIABLE

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
metadata: {{name: {secret}, namespace: {namespace}}}
stringData:
  key_secret: |
{server_file}
  authorized_keys: |
    {client_public} owner=0 name=client
---
# The key of clients, for whoever opens sessions: LIMPET_KEY is the path of key_secret, LIMPET_SERVER_KEY is server_key.
apiVersion: v1
kind: Secret
metadata: {{name: {client}, namespace: {namespace}}}
stringData:
  key_secret: |
{client_file}
  server_key: "{server_public}"
---
# Code in a session reaches {reached}. Its node always reaches it, and clients reach its controller.
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: limpet-sessions, namespace: {namespace}}}
spec:
  podSelector:
    matchLabels:
      app.kubernetes.io/name: limpet
      app.kubernetes.io/component: session
  policyTypes: [Ingress, Egress]
  egress:{egress_rules}
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
metadata: {{name: {client}, namespace: {namespace}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: {client}, namespace: {namespace}}}
rules:
- apiGroups: [""]
  resources: [pods, persistentvolumeclaims]
  verbs: [create, delete, get, list]
- apiGroups: [""] # a pod of the pool becomes that of a session
  resources: [pods]
  verbs: [patch]{service_rule}{sandbox_rules}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: {client}, namespace: {namespace}}}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {client}
subjects:
- kind: ServiceAccount
  name: {client}
  namespace: {namespace}
"""


_PODS = """\
---
# What pods of sessions are like: variables of whoever opens sessions.
apiVersion: v1
kind: ConfigMap
metadata: {{name: limpet-pods, namespace: {namespace}}}
data:
{pods}
"""

_GATEWAYS = """\
---
# The users of gateways: `keys` has a hash for each, `api_key` is that of the first one.
apiVersion: v1
kind: Secret
metadata: {{name: limpet-gateway, namespace: {namespace}}}
stringData:
  api_key: "{api_key}"
  keys: |
    {users}
---
# Gateways keep nothing that another one would need.
apiVersion: apps/v1
kind: Deployment
metadata: {{name: limpet-gateway, namespace: {namespace}}}
spec:
  replicas: {replicas}
  selector:
    matchLabels:
      app.kubernetes.io/name: limpet
      app.kubernetes.io/component: gateway
  template:
    metadata:
      labels:
        app.kubernetes.io/name: limpet
        app.kubernetes.io/component: gateway
        {label}: "true"
    spec:
      serviceAccountName: {client}
      enableServiceLinks: false
      securityContext:
        {{runAsNonRoot: true, runAsUser: 20005, fsGroup: 20005, seccompProfile: {{type: RuntimeDefault}}}}
      containers:
      - name: gateway
        image: "{image}"
        command: [python3, -m, limpet.serve]
        envFrom:
        - configMapRef:
            name: limpet-pods
        env:
        - {{name: LIMPET_SERVE_FLEET, value: "kubernetes://{namespace}"}}
        - {{name: LIMPET_SERVE_HOST, value: 0.0.0.0}}
        - {{name: LIMPET_SERVE_STATE_DIR, value: /var/lib/limpet-serve}}
        - {{name: LIMPET_SERVE_KEYS, value: /etc/limpet/users/keys}}
        - {{name: LIMPET_KEY, value: /etc/limpet/client/key_secret}}
        - {{name: LIMPET_SERVER_KEY, valueFrom: {{secretKeyRef: {{name: {client}, key: server_key}}}}}}{egress_variable}
        ports:
        - containerPort: 8000
        readinessProbe:
          httpGet: {{path: /ready, port: 8000}}
        livenessProbe:
          httpGet: {{path: /health, port: 8000}}
        resources:
          requests: {{memory: {memory}, cpu: {cpu}}}
          limits: {{memory: {memory}}}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities: {{drop: [ALL]}}
        volumeMounts:
        - {{name: users, mountPath: /etc/limpet/users, readOnly: true}}
        - {{name: client, mountPath: /etc/limpet/client, readOnly: true}}{egress_mount}
        - {{name: state, mountPath: /var/lib/limpet-serve}}
        - {{name: state, mountPath: /tmp, subPath: tmp}}
      volumes:
      - name: users
        secret: {{secretName: limpet-gateway, defaultMode: 0440}}
      - name: client
        secret: {{secretName: {client}, defaultMode: 0440}}{egress_volume}
      - name: state
        emptyDir: {{sizeLimit: 2Gi}}
---
# A client comes to the same gateway, where the answers to its questions are waited for.
apiVersion: v1
kind: Service
metadata: {{name: limpet-gateway, namespace: {namespace}}}
spec:
  selector:
    app.kubernetes.io/name: limpet
    app.kubernetes.io/component: gateway
  sessionAffinity: ClientIP
  ports:
  - port: 80
    targetPort: 8000
"""

_EGRESS = """\
---
# The key of the rules of sessions: whoever opens sessions seals them with it (LIMPET_EGRESS_KEY).
apiVersion: v1
kind: Secret
metadata: {{name: {egress}, namespace: {namespace}}}
stringData:
  key: "{key}"
---
# Connects sessions to what their rules and bindings name. It keeps nothing.
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {egress}, namespace: {namespace}}}
spec:
  replicas: {replicas}
  selector:
    matchLabels: {labels}
  template:
    metadata:
      labels: {labels}
    spec:
      automountServiceAccountToken: false
      enableServiceLinks: false
      securityContext:
        {{runAsNonRoot: true, runAsUser: 20003, fsGroup: 20003, seccompProfile: {{type: RuntimeDefault}}}}
      containers:
      - name: egress
        image: "{image}"
        imagePullPolicy: {pull}
        command: [limpetd, --egress, --listen, "tcp://*:{port}", --egress-key, /etc/limpet/egress/key]
        readinessProbe:
          tcpSocket: {{port: {port}}}
        resources:
          requests: {{memory: 128Mi, cpu: 100m}}
          limits: {{memory: 1Gi}}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities: {{drop: [ALL]}}
        volumeMounts:
        - {{name: key, mountPath: /etc/limpet/egress, readOnly: true}}
      volumes:
      - name: key
        secret: {{secretName: {egress}, defaultMode: 0440}}
---
apiVersion: v1
kind: Service
metadata: {{name: {egress}, namespace: {namespace}}}
spec:
  selector: {labels}
  ports: [{{port: {port}}}]
---
# Sessions reach it, and it reaches everything.
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: {egress}, namespace: {namespace}}}
spec:
  podSelector:
    matchLabels: {labels}
  policyTypes: [Ingress]
  ingress:
  - from:
    - podSelector:
        matchLabels: {{app.kubernetes.io/name: limpet, app.kubernetes.io/component: session}}
    ports: [{{port: {port}}}]
"""

# Where agent-sandbox makes the pods of sessions.
_SANDBOX_RULES = f"""
- apiGroups: [{SANDBOXES.partition("/")[0]}]
  resources: [sandboxclaims, sandboxwarmpools, sandboxtemplates]
  verbs: [create, delete, get, list, patch]"""

_EGRESS_LABELS = "{app.kubernetes.io/name: limpet, app.kubernetes.io/component: egress}"
# For what there is without limpet-egress, too.
_WITHOUT_EGRESS = {
    "reached": "nothing",
    "egress_rules": " []",
    "service_rule": "",
    "egress_variable": "",
    "egress_mount": "",
    "egress_volume": "",
}
_WITH_EGRESS = {
    "reached": f"{EGRESS} alone",
    "egress_rules": f"""
  - to:
    - podSelector:
        matchLabels: {_EGRESS_LABELS}
    ports: [{{port: {EGRESS_PORT}}}]""",
    "service_rule": f"""
- apiGroups: [""]
  resources: [services]
  resourceNames: [{EGRESS}]
  verbs: [get]""",
    "egress_variable": """
        - {name: LIMPET_EGRESS_KEY, value: /etc/limpet/egress/key}""",
    "egress_mount": """
        - {name: egress, mountPath: /etc/limpet/egress, readOnly: true}""",
    "egress_volume": f"""
      - name: egress
        secret: {{secretName: {EGRESS}, defaultMode: 0440}}""",
}


class Pair(NamedTuple):
    """Two keys, as text of 40 characters."""

    public: str
    secret: str


class Gateways(NamedTuple):
    """What gateways are like."""

    image: str
    replicas: int = 2
    memory: str = "512Mi"
    cpu: str = "500m"
    user: str = "admin"
    """Name of the first of their users."""


def manifest(
    namespace: str,
    server: Pair,
    client: Pair,
    pods: Mapping[str, str],
    gateways: Gateways | None = None,
    egress: int = 0,
) -> str:
    """The YAML for a namespace, with the keys of both sides.

    Args:
        namespace: Its name.
        server: Keys of controllers.
        client: Keys of clients.
        pods: Variables of PodOptions, if they are known.
        gateways: None: there are none.
        egress: How many processes connect sessions to what their rules name, of the image of controllers.
    """
    said = {"namespace": namespace, "client": CLIENT, "label": CLIENT_LABEL}
    said |= _WITH_EGRESS if egress else _WITHOUT_EGRESS
    said["sandbox_rules"] = _SANDBOX_RULES if pods.get(f"{VARIABLE}AGENT_SANDBOX") == "true" else ""
    text = _TEXT.format(
        **said,
        secret=SECRET,
        port=PORT,
        server_file=_file(server),
        client_file=_file(client),
        client_public=client.public,
        server_public=server.public,
    )
    if pods:
        text += _PODS.format(**said, pods="\n".join(f'  {name}: "{pods[name]}"' for name in sorted(pods)))
    if egress:
        text += _EGRESS.format(
            namespace=namespace,
            egress=EGRESS,
            labels=_EGRESS_LABELS,
            key=secrets.token_hex(32),
            replicas=egress,
            image=pods[f"{VARIABLE}CONTROLLER_IMAGE"],
            pull=pods.get(f"{VARIABLE}PULL", "IfNotPresent"),
            port=EGRESS_PORT,
        )
    if gateways is not None:
        api_key, users = _first_user(gateways.user)
        text += _GATEWAYS.format(**said, **gateways._asdict(), api_key=api_key, users=users)
    return text


def _first_user(name: str) -> tuple[str, str]:
    """A key, and the file that lets it in."""
    from ..serve._keys import KeyStore

    with tempfile.TemporaryDirectory() as directory:
        store = KeyStore(os.path.join(directory, "keys"))
        return store.create(name), json.dumps([asdict(key) for key in store.all()])


def _file(pair: Pair) -> str:
    """As `limpet keygen` writes it."""
    lines = ("metadata", "curve", f'    public-key = "{pair.public}"', f'    secret-key = "{pair.secret}"')
    return "\n".join(f"    {line}" for line in lines)
