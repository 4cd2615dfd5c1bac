"""Pods as a real API server sends them: about 10 KB each, half of it managedFields."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["BASE_VERSION", "pod", "pod_json"]

BASE_VERSION = 1_000_000
"""The resourceVersion of pod 0 as listed; pod i has BASE_VERSION + i."""

_NAMESPACES = 20
_PODS_PER_OWNER = 10


def pod(number: int, *, version: int | None = None, last: bool = False) -> dict[str, Any]:
    """Return pod `number` of a large cluster; a later `version` is a status change."""
    owner = number // _PODS_PER_OWNER
    name = f"service-{owner:05d}-{owner * 2654435761 % 2**32:08x}-{number % 10:05d}"
    changed = version is not None
    labels = {
        "app": f"service-{owner:05d}",
        "app.kubernetes.io/name": f"service-{owner:05d}",
        "app.kubernetes.io/part-of": "shop",
        "app.kubernetes.io/managed-by": "deployer",
        "pod-template-hash": f"{owner * 2654435761 % 2**32:08x}",
        "team": f"team-{owner % 12}",
    }
    annotations = {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": "8080",
        "checksum/config": f"{owner * 40503 % 2**64:064x}",
    }
    if last:
        annotations["bench/last"] = "true"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "generateName": name[:-5],
            "namespace": f"namespace-{owner % _NAMESPACES:02d}",
            "uid": f"00000000-0000-4000-8000-{number:012d}",
            "resourceVersion": str(BASE_VERSION + number if version is None else version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": name[:-6],
                    "uid": f"10000000-0000-4000-8000-{owner:012d}",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": _managers(labels, annotations),
        },
        "spec": {
            "containers": [_container("app", owner), _container("sidecar", owner)],
            "volumes": [_token_volume(), {"name": "config", "configMap": {"name": name[:-6]}}],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": f"service-{owner:05d}",
            "nodeName": f"node-{number % 100:03d}.example.internal",
            "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
                for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": _status(number, ready=not changed or bool(version and version % 2)),
    }


def pod_json(number: int, *, version: int | None = None, last: bool = False) -> bytes:
    """Return that pod as it travels."""
    return json.dumps(pod(number, version=version, last=last), separators=(",", ":")).encode()


def _container(name: str, owner: int) -> dict[str, Any]:
    return {
        "name": name,
        "image": f"example.org/shop/{name}-{owner % 50}:1.{owner % 20}.0",
        "imagePullPolicy": "IfNotPresent",
        "args": ["--listen=0.0.0.0:8080", "--log=json", f"--service=service-{owner:05d}"],
        "ports": [
            {"name": "http", "containerPort": 8080, "protocol": "TCP"},
            {"name": "metrics", "containerPort": 9090, "protocol": "TCP"},
        ],
        "env": [
            {"name": f"SETTING_{number}", "value": f"value-{number}-of-service-{owner:05d}"}
            for number in range(12)
        ]
        + [
            {
                "name": "POD_IP",
                "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}},
            }
        ],
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"cpu": "1", "memory": "512Mi"},
        },
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/config", "readOnly": True},
            {
                "name": "kube-api-access",
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                "readOnly": True,
            },
        ],
        "livenessProbe": _probe("/live"),
        "readinessProbe": _probe("/ready"),
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }


def _probe(path: str) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "http", "scheme": "HTTP"},
        "initialDelaySeconds": 5,
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }


def _token_volume() -> dict[str, Any]:
    return {
        "name": "kube-api-access",
        "projected": {
            "defaultMode": 420,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {
                    "configMap": {
                        "name": "kube-root-ca.crt",
                        "items": [{"key": "ca.crt", "path": "ca.crt"}],
                    }
                },
            ],
        },
    }


def _status(number: int, *, ready: bool) -> dict[str, Any]:
    truth = "True" if ready else "False"
    address = f"10.{number // 65536 % 256}.{number // 256 % 256}.{number % 256}"
    return {
        "phase": "Running",
        "conditions": [
            {
                "type": kind,
                "status": truth if kind in {"Ready", "ContainersReady"} else "True",
                "lastProbeTime": None,
                "lastTransitionTime": "2026-01-01T00:00:10Z",
            }
            for kind in (
                "PodReadyToStartContainers",
                "Initialized",
                "Ready",
                "ContainersReady",
                "PodScheduled",
            )
        ],
        "hostIP": f"192.168.0.{number % 100}",
        "hostIPs": [{"ip": f"192.168.0.{number % 100}"}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": "2026-01-01T00:00:00Z",
        "qosClass": "Burstable",
        "containerStatuses": [
            {
                "name": name,
                "state": {"running": {"startedAt": "2026-01-01T00:00:05Z"}},
                "lastState": {},
                "ready": ready,
                "restartCount": 0,
                "image": f"example.org/shop/{name}:1.0.0",
                "imageID": f"example.org/shop/{name}@sha256:{number:064x}",
                "containerID": f"containerd://{number * 2 + offset:064x}",
                "started": True,
            }
            for offset, name in enumerate(("app", "sidecar"))
        ],
    }


def _managers(labels: dict[str, str], annotations: dict[str, str]) -> list[dict[str, Any]]:
    container: dict[str, Any] = {
        ".": {},
        "f:args": {},
        "f:env": {
            ".": {},
            **{
                f'k:{{"name":"SETTING_{number}"}}': {".": {}, "f:name": {}, "f:value": {}}
                for number in range(12)
            },
        },
        "f:image": {},
        "f:imagePullPolicy": {},
        "f:livenessProbe": {".": {}, "f:failureThreshold": {}, "f:httpGet": {"f:path": {}}},
        "f:readinessProbe": {".": {}, "f:failureThreshold": {}, "f:httpGet": {"f:path": {}}},
        "f:resources": {"f:limits": {"f:cpu": {}, "f:memory": {}}, "f:requests": {"f:cpu": {}}},
    }
    condition: dict[str, Any] = {
        ".": {},
        "f:lastProbeTime": {},
        "f:lastTransitionTime": {},
        "f:status": {},
    }
    return [
        {
            "manager": "kube-controller-manager",
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {
                    "f:annotations": {".": {}, **{f"f:{key}": {} for key in annotations}},
                    "f:labels": {".": {}, **{f"f:{key}": {} for key in labels}},
                    "f:ownerReferences": {".": {}},
                },
                "f:spec": {
                    "f:containers": {
                        'k:{"name":"app"}': container,
                        'k:{"name":"sidecar"}': container,
                    }
                },
            },
        },
        {
            "manager": "kubelet",
            "operation": "Update",
            "apiVersion": "v1",
            "subresource": "status",
            "time": "2026-01-01T00:00:10Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:status": {
                    "f:conditions": {
                        f'k:{{"type":"{kind}"}}': condition
                        for kind in ("Ready", "ContainersReady", "Initialized")
                    },
                    "f:containerStatuses": {},
                    "f:podIP": {},
                    "f:startTime": {},
                }
            },
        },
    ]
