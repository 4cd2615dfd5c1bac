"""The pod that runs one server. Pure.

Stock image, `restricted` pod security, and probes that never kill a server that loads or saves.
"""

from __future__ import annotations

from typing import Any, Final

from redis_operator.api.redis import (
    AntiAffinity,
    PodOptions,
    Probes,
    ProbeTimes,
    Redis,
)

from .config import boot_digest, boot_settings, config_file_name
from .container import locked_down, resources
from .exporter import server_exporter
from .facts import Facts
from .layouts import layout_of
from .names import (
    CLIENT_PORT,
    SHAPE_ANNOTATION,
    TEMPLATE_ANNOTATION,
    common_labels,
    config_map,
    selector,
    users_secret,
)
from .objects import Object, digest
from .users import EXPORTER, acl_file_name

__all__ = [
    "CONFIG",
    "DATA",
    "DOWNWARD",
    "RESTARTED_ANNOTATION",
    "USERS",
    "from_pod",
    "placement",
    "pod_template",
    "server_mounts",
    "volumes",
]

RESTARTED_ANNOTATION: Final = "kubectl.kubernetes.io/restartedAt"
"""Set on the database, it is copied to the pods and they are replaced one by one."""
_BOOT_ANNOTATION: Final = "redisoperator.dev/boot-config"
DATA: Final = "/data"
CONFIG: Final = "/redis/config"
USERS: Final = "/redis/users"
_USER: Final = 999
_HOSTNAME: Final = "kubernetes.io/hostname"
_ZONE: Final = "topology.kubernetes.io/zone"


def pod_template(redis: Redis, facts: Facts, number: int) -> Object:
    """Return the template of a group's pods with its own hash: pods that differ are outdated."""
    name, spec = redis.metadata.name, redis.spec
    picked = layout_of(redis).selector(name, number)
    labels = dict(spec.pod.labels) | common_labels(name) | picked
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
    picked = layout_of(redis).selector(name, number)
    containers = [_server(redis, facts), *map(_beside, pod.sidecars)]
    if redis.spec.monitoring.exporter:
        containers.insert(1, server_exporter(redis, facts))
    found = placement(redis, picked, pod) | {
        "terminationGracePeriodSeconds": pod.termination_grace_period_seconds,
        "containers": containers,
        "volumes": _volumes(redis, facts),
    }
    if pod.init_containers:
        found["initContainers"] = [_beside(container) for container in pod.init_containers]
    return found


def placement(redis: Redis, picked: dict[str, str], pod: PodOptions) -> Object:
    """Return the account and the placement of a pod; `picked` selects the pods it is kept apart
    from."""
    name = redis.metadata.name
    found: Object = {
        "serviceAccountName": pod.service_account_name or name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": _security(pod.security_context),
        "affinity": dict(pod.affinity) or _affinity(name, picked, pod.anti_affinity),
        "topologySpreadConstraints": [dict(c) for c in pod.topology_spread_constraints]
        or _spread(picked),
    }
    if pod.tolerations:
        found["tolerations"] = [dict(toleration) for toleration in pod.tolerations]
    if pod.node_selector:
        found["nodeSelector"] = dict(pod.node_selector)
    if pod.priority_class_name:
        found["priorityClassName"] = pod.priority_class_name
    if pod.runtime_class_name:
        found["runtimeClassName"] = pod.runtime_class_name
    if pod.image_pull_secrets:
        found["imagePullSecrets"] = [{"name": secret.name} for secret in pod.image_pull_secrets]
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


def _beside(container: dict[str, Any]) -> Object:
    """Return a user's own container such that the profile `restricted` admits the pod."""
    given = container.get("securityContext") or {}
    context = {"allowPrivilegeEscalation": False} | given | {"capabilities": {"drop": ["ALL"]}}
    return {**container, "securityContext": context}


def _server(redis: Redis, facts: Facts) -> Object:
    spec = redis.spec
    found: Object = {
        "name": "server",
        "image": spec.image or facts.image,
        "imagePullPolicy": spec.pod.image_pull_policy.value,
        "command": ["sh", f"{CONFIG}/boot.sh"],
        "env": _environment(redis, facts),
        "ports": [
            {"name": port.name, "containerPort": port.number, "protocol": "TCP"}
            for port in layout_of(redis).ports
        ],
        "resources": resources(spec.resources),
        "volumeMounts": [*server_mounts(), *map(dict, spec.pod.volume_mounts)],
        "securityContext": locked_down(),
        # The last message of a server that gives up is shown in the pod's status.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "lifecycle": {"preStop": {"exec": {"command": ["sh", f"{CONFIG}/stop.sh"]}}},
        **_probes(spec.pod.probes),
    }
    return found


def server_mounts() -> list[Object]:
    """Return the mounts of the data, the files and the users of a server or a sentinel."""
    return [
        {"name": "data", "mountPath": DATA},
        {"name": "config", "mountPath": CONFIG, "readOnly": True},
        {"name": "users", "mountPath": USERS, "readOnly": True},
    ]


def _environment(redis: Redis, facts: Facts) -> list[Object]:
    spec, layout = redis.spec, layout_of(redis)
    values = {
        "SERVER": f"{facts.version.engine}-server",
        "PORT": str(CLIENT_PORT),
        "DATA": DATA,
        "CONFIG": CONFIG,
        "USERS": USERS,
        "CONFIG_FILE": config_file_name(facts.version),
        "ACL_FILE": acl_file_name(facts.version),
        "IDENTITY": facts.identity or redis.metadata.uid,
        "PERSISTENCE": spec.persistence.value,
        **layout.waits(spec),
    }
    settings = boot_settings(spec, facts.version)
    if settings:
        values["SETTINGS"] = settings.replace("$(", "$$(")  # else a variable
    values |= layout.announces(redis, facts.version)
    return [
        *(from_pod(variable, path) for variable, path in DOWNWARD),
        *({"name": variable, "value": value} for variable, value in values.items()),
        *map(dict, spec.pod.env),
    ]


DOWNWARD: Final = (("POD_NAME", "metadata.name"), ("POD_IP", "status.podIP"))


def from_pod(variable: str, path: str) -> Object:
    """Return a variable whose value is a field of the pod."""
    reference = {"apiVersion": "v1", "fieldPath": path}
    return {"name": variable, "valueFrom": {"fieldRef": reference}}


def _probes(times: Probes) -> Object:
    """Return the probes: liveness is listening, readiness is being in sync; see the decision."""
    listens = {"tcpSocket": {"port": "redis"}}
    ready = {"exec": {"command": ["sh", f"{CONFIG}/ready.sh"]}}
    return {
        # Six hours to load a dataset or wait for a failover; the port opens before loading.
        "startupProbe": listens | _timed(times.startup, period=1, failures=21600, timeout=5),
        "livenessProbe": listens | _timed(times.liveness, period=10, failures=6, timeout=5),
        "readinessProbe": ready | _timed(times.readiness, period=3, failures=3, timeout=3),
    }


def _timed(asked: ProbeTimes, *, period: int, failures: int, timeout: int) -> Object:
    """Return the timings of a probe: from the spec, or the default."""
    found = {"periodSeconds": period, "failureThreshold": failures, "timeoutSeconds": timeout}
    wishes = {
        "initialDelaySeconds": asked.initial_delay_seconds,
        "periodSeconds": asked.period_seconds,
        "failureThreshold": asked.failure_threshold,
        "timeoutSeconds": asked.timeout_seconds,
    }
    return found | {name: value for name, value in wishes.items() if value is not None}


def _volumes(redis: Redis, facts: Facts) -> list[Object]:
    name, spec = redis.metadata.name, redis.spec
    found = volumes(name, [acl_file_name(facts.version), "replication.conf", EXPORTER])
    if spec.storage is None:
        found.append({"name": "data", "emptyDir": {}})
    return [*found, *map(dict, spec.pod.volumes)]


def volumes(name: str, keys: list[str]) -> list[Object]:
    """Return the files that every pod reads: its configuration, and these keys of the users'
    Secret."""
    return [
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


def _affinity(name: str, picked: dict[str, str], kind: AntiAffinity) -> Object:
    """Keep copies of one group apart first, then servers of one database."""

    def apart(labels: dict[str, str]) -> Object:
        return {"labelSelector": {"matchLabels": labels}, "topologyKey": _HOSTNAME}

    shard, database = apart(picked), apart(selector(name))
    preferred = [{"weight": 10, "podAffinityTerm": database}]
    rules: Object = {}
    if kind is AntiAffinity.REQUIRED:
        rules["requiredDuringSchedulingIgnoredDuringExecution"] = [shard]
    else:
        preferred.insert(0, {"weight": 100, "podAffinityTerm": shard})
    rules["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return {"podAntiAffinity": rules}


def _spread(picked: dict[str, str]) -> list[Object]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": _ZONE,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": picked},
        }
    ]
