"""The pod that runs one server. Pure.

Stock image, `restricted` pod security, and probes that never kill a server that loads or saves.
"""

from __future__ import annotations

from typing import Any, Final

from redis_operator.api.redis import Redis, RedisSpec
from redis_operator.redis.versions import Ability, can

from .config import boot_digest, boot_settings, config_file_name, node_timeout_ms
from .facts import Facts
from .names import (
    BUS_PORT,
    CLIENT_PORT,
    EXPORTER_PORT,
    SHAPE_ANNOTATION,
    TEMPLATE_ANNOTATION,
    common_labels,
    config_map,
    nodes_service,
    selector,
    users_secret,
)
from .objects import Object, digest
from .users import EXPORTER, acl_file_name

__all__ = ["RESTARTED_ANNOTATION", "pod_template"]

RESTARTED_ANNOTATION: Final = "kubectl.kubernetes.io/restartedAt"
"""Set on the database, it reaches the pods and has them replaced one by one."""
_BOOT_ANNOTATION: Final = "redisoperator.dev/boot-config"
_DATA: Final = "/data"
_CONFIG: Final = "/redis/config"
_USERS: Final = "/redis/users"
_GRACE_SECONDS: Final = 300
_USER: Final = 999
_HOSTNAME: Final = "kubernetes.io/hostname"
_ZONE: Final = "topology.kubernetes.io/zone"


def pod_template(redis: Redis, facts: Facts, number: int) -> Object:
    """The template of a shard's pods, marked with its own hash: pods that differ are outdated."""
    name, spec = redis.metadata.name, redis.spec
    labels = dict(spec.pod.labels) | common_labels(name) | selector(name, number)
    annotations = dict(spec.pod.annotations)
    annotations[_BOOT_ANNOTATION] = boot_digest(spec, facts.version, facts.once_set)
    if RESTARTED_ANNOTATION in redis.metadata.annotations:
        annotations[RESTARTED_ANNOTATION] = redis.metadata.annotations[RESTARTED_ANNOTATION]
    template: Object = {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": _pod_spec(redis, facts, number),
    }
    server = template["spec"]["containers"][0]
    sized = server.pop("resources")
    annotations[SHAPE_ANNOTATION] = digest(template)
    server["resources"] = sized
    annotations[TEMPLATE_ANNOTATION] = digest(template)
    return template


def _pod_spec(redis: Redis, facts: Facts, number: int) -> Object:
    name, pod = redis.metadata.name, redis.spec.pod
    containers = [_server(redis, facts), *map(dict, pod.sidecars)]
    if redis.spec.monitoring.exporter and facts.exporter_image:
        containers.insert(1, _exporter(facts))
    found: Object = {
        "serviceAccountName": pod.service_account_name or name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "securityContext": _security(pod.security_context),
        "affinity": dict(pod.affinity) or _affinity(name, number),
        "topologySpreadConstraints": [dict(c) for c in pod.topology_spread_constraints]
        or _spread(name, number),
        "containers": containers,
        "volumes": _volumes(redis, facts),
    }
    if pod.init_containers:
        found["initContainers"] = [dict(container) for container in pod.init_containers]
    if pod.tolerations:
        found["tolerations"] = [dict(toleration) for toleration in pod.tolerations]
    if pod.node_selector:
        found["nodeSelector"] = dict(pod.node_selector)
    if pod.priority_class_name:
        found["priorityClassName"] = pod.priority_class_name
    return found


def _security(wanted: dict[str, Any]) -> Object:
    return {
        "runAsNonRoot": True,
        "runAsUser": _USER,
        "runAsGroup": _USER,
        "fsGroup": _USER,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    } | wanted


def _locked_down() -> Object:
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def _server(redis: Redis, facts: Facts) -> Object:
    spec = redis.spec
    found: Object = {
        "name": "server",
        "image": spec.image or facts.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", f"{_CONFIG}/boot.sh"],
        "env": _environment(redis, facts),
        "ports": [
            {"name": "redis", "containerPort": CLIENT_PORT, "protocol": "TCP"},
            {"name": "bus", "containerPort": BUS_PORT, "protocol": "TCP"},
        ],
        "resources": _resources(spec),
        "volumeMounts": [
            {"name": "data", "mountPath": _DATA},
            {"name": "config", "mountPath": _CONFIG, "readOnly": True},
            {"name": "users", "mountPath": _USERS, "readOnly": True},
        ],
        "securityContext": _locked_down(),
        # What a server says when it gives up reaches the pod's status, and from there people.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "lifecycle": {"preStop": {"exec": {"command": ["sh", f"{_CONFIG}/stop.sh"]}}},
        **_probes(),
    }
    return found


def _resources(spec: RedisSpec) -> Object:
    found: Object = {}
    if spec.resources.requests:
        found["requests"] = {name: str(v) for name, v in spec.resources.requests.items()}
    if spec.resources.limits:
        found["limits"] = {name: str(v) for name, v in spec.resources.limits.items()}
    return found


def _environment(redis: Redis, facts: Facts) -> list[Object]:
    name, namespace, spec = redis.metadata.name, redis.metadata.namespace, redis.spec
    values = {
        "SERVER": f"{facts.version.engine}-server",
        "PORT": str(CLIENT_PORT),
        "DATA": _DATA,
        "CONFIG": _CONFIG,
        "USERS": _USERS,
        "CONFIG_FILE": config_file_name(facts.version),
        "ACL_FILE": acl_file_name(facts.version),
        "IDENTITY": facts.identity or redis.metadata.uid,
        "PERSISTENCE": spec.persistence.value,
        "HANDOVER_SECONDS": str(max(1, node_timeout_ms(spec) * 5 // 1000)),
        # An election that was lost is not tried again for four node timeouts.
        "FAILOVER_SECONDS": str(node_timeout_ms(spec) * 6 // 1000 + 1),
    }
    settings = boot_settings(spec, facts.version)
    if settings:
        values["SETTINGS"] = settings.replace("$(", "$$(")  # else the name of a variable
    if can(facts.version, Ability.ANNOUNCE_HOSTNAME):
        values["ANNOUNCE_HOSTNAME"] = f"$(POD_NAME).{nodes_service(name)}.{namespace}.svc"
    if can(facts.version, Ability.HUMAN_NODENAME):
        values["ANNOUNCE_NAME"] = "$(POD_NAME)"
    return [
        *(_from_pod(variable, path) for variable, path in _DOWNWARD),
        *({"name": variable, "value": value} for variable, value in values.items()),
        *map(dict, spec.pod.env),
    ]


_DOWNWARD: Final = (("POD_NAME", "metadata.name"), ("POD_IP", "status.podIP"))


def _from_pod(variable: str, path: str) -> Object:
    reference = {"apiVersion": "v1", "fieldPath": path}
    return {"name": variable, "valueFrom": {"fieldRef": reference}}


def _probes() -> Object:
    """Whether it listens decides life, whether it is in sync decides traffic; see the decision."""
    listens = {"tcpSocket": {"port": "redis"}}
    return {
        # Six hours to load a dataset or wait for a failover; the port opens before loading.
        "startupProbe": listens
        | {"periodSeconds": 1, "failureThreshold": 21600, "timeoutSeconds": 5},
        "livenessProbe": listens
        | {"periodSeconds": 10, "failureThreshold": 6, "timeoutSeconds": 5},
        "readinessProbe": {
            "exec": {"command": ["sh", f"{_CONFIG}/ready.sh"]},
            "periodSeconds": 3,
            "failureThreshold": 3,
            "timeoutSeconds": 3,
        },
    }


def _exporter(facts: Facts) -> Object:
    return {
        "name": "exporter",
        "image": facts.exporter_image,
        "imagePullPolicy": "IfNotPresent",
        "env": [
            {"name": "REDIS_ADDR", "value": f"redis://localhost:{CLIENT_PORT}"},
            {"name": "REDIS_USER", "value": EXPORTER},
            {"name": "REDIS_PASSWORD_FILE", "value": f"{_USERS}/exporter.json"},
            {"name": "REDIS_EXPORTER_WEB_LISTEN_ADDRESS", "value": f":{EXPORTER_PORT}"},
        ],
        "ports": [{"name": "stats", "containerPort": EXPORTER_PORT, "protocol": "TCP"}],
        "resources": {
            "requests": {"cpu": "10m", "memory": "32Mi"},
            "limits": {"memory": "128Mi"},
        },
        "volumeMounts": [{"name": "users", "mountPath": _USERS, "readOnly": True}],
        "securityContext": _locked_down(),
    }


def _volumes(redis: Redis, facts: Facts) -> list[Object]:
    name, spec = redis.metadata.name, redis.spec
    keys = [acl_file_name(facts.version), "replication.conf", "exporter"]
    if spec.monitoring.exporter and facts.exporter_image:
        keys.append("exporter.json")
    found: list[Object] = [
        {"name": "config", "configMap": {"name": config_map(name), "defaultMode": 0o444}},
        {
            "name": "users",
            "secret": {
                "secretName": users_secret(name),
                "defaultMode": 0o440,
                "items": [{"key": key, "path": key} for key in keys],
            },
        },
    ]
    if spec.storage is None:
        found.append({"name": "data", "emptyDir": {}})
    return [*found, *map(dict, spec.pod.volumes)]


def _affinity(name: str, number: int) -> Object:
    """Copies of one shard apart first, then servers of one database apart."""

    def apart(weight: int, labels: dict[str, str]) -> Object:
        term = {"labelSelector": {"matchLabels": labels}, "topologyKey": _HOSTNAME}
        return {"weight": weight, "podAffinityTerm": term}

    preferred = [apart(100, selector(name, number)), apart(10, selector(name))]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def _spread(name: str, number: int) -> list[Object]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": _ZONE,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": selector(name, number)},
        }
    ]
