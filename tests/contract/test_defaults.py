"""What the server fills into the built-in kinds, whole answers against those recorded."""

from __future__ import annotations

from typing import Any

import pytest

from contract.driver import Space
from contract.golden import plain, same

LABELS = {"app": "a"}
TEMPLATE = {
    "metadata": {"labels": LABELS},
    "spec": {"containers": [{"name": "main", "image": "redis:7.0"}]},
}
SELECTOR = {"matchLabels": LABELS}
CLAIM = {
    "accessModes": ["ReadWriteOnce"],
    "storageClassName": "none-such",
    "resources": {"requests": {"storage": "1Gi"}},
}
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
HOOK = {
    "name": "a.contract.test",
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "clientConfig": {"service": {"name": "x", "namespace": "y"}},
    "rules": [RULE],
}


def pod(**spec: Any) -> dict[str, Any]:
    quiet = {"automountServiceAccountToken": False, "serviceAccountName": "default"}
    return {"spec": {**quiet, **spec}}


def main(**more: Any) -> list[dict[str, Any]]:
    return [{"name": "main", "image": "redis:7.0", **more}]


DOWNWARD = {"items": [{"path": "x", "fieldRef": {"fieldPath": "metadata.name"}}]}
VOLUMES = [
    {"name": "a", "configMap": {"name": "c"}},
    {"name": "b", "secret": {"secretName": "c"}},
    {"name": "c", "projected": {"sources": [{"downwardAPI": DOWNWARD}]}},
    {"name": "d", "downwardAPI": DOWNWARD},
    {"name": "e", "emptyDir": {"sizeLimit": "1Gi"}},
    {"name": "f", "hostPath": {"path": "/x"}},
    {"name": "g", "persistentVolumeClaim": {"claimName": "x"}},
    {"name": "h"},
]

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("pod", "pods", pod(containers=main())),
    ("pod without a tag", "pods", pod(containers=[{"name": "main", "image": "redis"}])),
    ("pod of the latest", "pods", pod(containers=[{"name": "main", "image": "redis:latest"}])),
    ("pod by digest", "pods", pod(containers=[{"name": "m", "image": "r@sha256:" + "0" * 64}])),
    ("pod with volumes", "pods", pod(containers=main(), volumes=VOLUMES)),
    (
        "pod with probes",
        "pods",
        pod(
            containers=main(
                livenessProbe={"httpGet": {"port": 80}},
                readinessProbe={"tcpSocket": {"port": 80}},
                startupProbe={"exec": {"command": ["true"]}},
                lifecycle={"preStop": {"httpGet": {"port": 80}}},
            )
        ),
    ),
    (
        "pod with a grpc probe",
        "pods",
        pod(containers=main(livenessProbe={"grpc": {"port": 80}})),
    ),
    (
        "pod with limits",
        "pods",
        pod(containers=main(resources={"limits": {"cpu": "1", "memory": "1Gi"}})),
    ),
    ("pod with requests", "pods", pod(containers=main(resources={"requests": {"cpu": "100m"}}))),
    (
        "pod with odd quantities",
        "pods",
        pod(containers=main(resources={"requests": {"cpu": "0.5", "memory": "1024Mi"}})),
    ),
    (
        "pod with ports",
        "pods",
        pod(containers=main(ports=[{"containerPort": 6379, "name": "redis"}])),
    ),
    (
        "pod with references",
        "pods",
        pod(
            containers=main(
                env=[
                    {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                    {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                    {"name": "C", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                ]
            )
        ),
    ),
    (
        "pod with a sidecar",
        "pods",
        pod(
            containers=main(),
            initContainers=[{"name": "side", "image": "x:1", "restartPolicy": "Always"}],
        ),
    ),
    (
        "pod on the host network",
        "pods",
        pod(containers=main(ports=[{"containerPort": 9}]), hostNetwork=True),
    ),
    (
        "pod with affinity and spread",
        "pods",
        pod(
            containers=main(),
            topologySpreadConstraints=[
                {
                    "maxSkew": 1,
                    "topologyKey": "zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": SELECTOR,
                }
            ],
            affinity={
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"labelSelector": SELECTOR, "topologyKey": "kubernetes.io/hostname"}
                    ]
                }
            },
        ),
    ),
    ("deployment", "deployments", {"spec": {"selector": SELECTOR, "template": TEMPLATE}}),
    (
        "recreating deployment",
        "deployments",
        {"spec": {"selector": SELECTOR, "template": TEMPLATE, "strategy": {"type": "Recreate"}}},
    ),
    ("replica set", "replicasets", {"spec": {"selector": SELECTOR, "template": TEMPLATE}}),
    (
        "stateful set",
        "statefulsets",
        {
            "spec": {
                "selector": SELECTOR,
                "template": TEMPLATE,
                "serviceName": "x",
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": CLAIM}],
            }
        },
    ),
    (
        "stateful set by hand",
        "statefulsets",
        {
            "spec": {
                "selector": SELECTOR,
                "template": TEMPLATE,
                "updateStrategy": {"type": "OnDelete"},
            }
        },
    ),
    (
        "job",
        "jobs",
        {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": main()}}}},
    ),
    ("service", "services", {"spec": {"ports": [{"port": 80}], "selector": LABELS}}),
    ("headless service", "services", {"spec": {"clusterIP": "None", "ports": [{"port": 80}]}}),
    ("service on node ports", "services", {"spec": {"type": "NodePort", "ports": [{"port": 80}]}}),
    ("external name", "services", {"spec": {"type": "ExternalName", "externalName": "x.y"}}),
    ("load balancer", "services", {"spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}}),
    (
        "service with affinity",
        "services",
        {"spec": {"sessionAffinity": "ClientIP", "ports": [{"port": 80, "targetPort": "http"}]}},
    ),
    ("claim", "persistentvolumeclaims", {"spec": CLAIM}),
    (
        "volume",
        "persistentvolumes",
        {
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/x"},
            }
        },
    ),
    ("storage class", "storageclasses", {"provisioner": "contract.test/none"}),
    ("namespace", "namespaces", {}),
    ("network policy", "networkpolicies", {"spec": {"podSelector": {}}}),
    (
        "network policy out",
        "networkpolicies",
        {"spec": {"podSelector": {}, "egress": [{"ports": [{"port": 53}]}]}},
    ),
    (
        "disruption budget",
        "poddisruptionbudgets",
        {"spec": {"minAvailable": 1, "selector": SELECTOR}},
    ),
    (
        "lease",
        "leases",
        {"spec": {"holderIdentity": "x", "renewTime": "2024-01-01T00:00:00.500000Z"}},
    ),
    (
        "endpoints",
        "endpoints",
        {"subsets": [{"addresses": [{"ip": "10.2.3.4"}], "ports": [{"port": 1}]}]},
    ),
    (
        "endpoint slice",
        "endpointslices",
        {
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.2.3.4"]}],
            "ports": [{"port": 1}],
        },
    ),
    (
        "role binding",
        "rolebindings",
        {
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "x"}, {"kind": "User", "name": "u"}],
        },
    ),
    ("role", "roles", {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
    ("service account", "serviceaccounts", {}),
    ("secret", "secrets", {"stringData": {"a": "b"}}),
    ("config map", "configmaps", {"data": {"a": "b"}, "binaryData": {"c": "AA=="}}),
    ("event", "events", {"involvedObject": {"kind": "Pod", "name": "x", "namespace": "<here>"}}),
    ("validating webhook", "validatingwebhookconfigurations", {"webhooks": [HOOK]}),
    ("mutating webhook", "mutatingwebhookconfigurations", {"webhooks": [HOOK]}),
    ("controller revision", "controllerrevisions", {"revision": 1, "data": {"any": "thing"}}),
    ("resource quota", "resourcequotas", {"spec": {"hard": {"pods": "5"}}}),
]


@pytest.mark.parametrize(("case", "resource", "body"), CASES, ids=[each[0] for each in CASES])
def test_defaults_of(space: Space, case: str, resource: str, body: dict[str, Any]) -> None:
    space.post("serviceaccounts", {"metadata": {"name": "default"}})
    whole = {"metadata": {"name": f"x-{space.name}"}, **body}
    if resource == "events":
        whole["involvedObject"] = {**body["involvedObject"], "namespace": space.name}
    found = space.post(resource, whole, dryRun="All").object
    same("defaults", case, plain(found, here=space.name))
