"""Pod options that are refused: whatever would exceed the `restricted` pod security level.

A person who may write a `Redis` may add containers and volumes to its pods; that must never be a
way to more rights than that person has (X-02). Checks that Kubernetes does itself are left to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from posixpath import normpath
from typing import Any, Final

from .redis import AntiAffinity, PodOptions, RedisSpec
from .shape import Problem

__all__ = ["OUR_CONTAINERS", "OUR_ENVIRONMENT", "OUR_LABELS", "pod_problems"]

OUR_CONTAINERS: Final = ("server", "exporter")
OUR_ENVIRONMENT: Final = frozenset(
    {
        "ACL_FILE",
        "ANNOUNCE_HOSTNAME",
        "ANNOUNCE_NAME",
        "CONFIG",
        "CONFIG_FILE",
        "DATA",
        "FAILOVER_SECONDS",
    }
    | {"HANDOVER_SECONDS", "IDENTITY", "PERSISTENCE", "POD_IP", "POD_NAME"}
    | {
        "NOTICE_SECONDS",
        "PORT",
        "PRIMARY_NAME",
        "SENTINEL_ID",
        "SENTINEL_PORT",
        "SERVER",
        "SETTINGS",
        "USERS",
    }
)
OUR_LABELS: Final = ("app.kubernetes.io/", "redisoperator.dev/")
_OUR_VOLUMES: Final = ("data", "config", "users")
_OUR_FOLDERS: Final = ("/data", "/redis")
_SHORTEST_LIFE: Final = 10
"""The least number of seconds without a reply after which a busy server may be killed."""
_SHORTEST_START: Final = 120
"""The least number of seconds until a server must listen: it may wait for a failover first."""
_SAFE_SYSCTLS: Final = frozenset(
    {"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies"}
    | {"net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start"}
    | {"net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time"}
    | {"net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl"}
    | {"net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
)
_VOLUMES: Final = frozenset(
    {"configMap", "secret", "emptyDir", "projected", "downwardAPI", "persistentVolumeClaim", "csi"}
    | {"ephemeral"}
)
_LABEL: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?\Z")


def pod_problems(spec: RedisSpec) -> Iterator[Problem]:
    """Every problem of `spec.pod`, of `spec.networkPolicy` and of labels of claims."""
    pod = spec.pod
    yield from _place_in_cluster(pod)
    yield from _probes(pod)
    yield from _context(pod.security_context, "spec.pod.securityContext")
    if spec.sentinel is not None and spec.sentinel.pod is not None:
        context = spec.sentinel.pod.security_context
        yield from _context(context, "spec.sentinel.pod.securityContext")
    for place, containers in (("sidecars", pod.sidecars), ("initContainers", pod.init_containers)):
        for index, container in enumerate(containers):
            yield from _container(container, f"spec.pod.{place}[{index}]")
    yield from _twice(pod)
    for index, volume in enumerate(pod.volumes):
        yield from _volume(volume, f"spec.pod.volumes[{index}]")
    named = {volume.get("name") for volume in pod.volumes}
    for index, mount in enumerate(pod.volume_mounts):
        yield from _mount(mount, named, f"spec.pod.volumeMounts[{index}]")
    yield from _labels(pod.labels, "spec.pod.labels")
    if spec.storage is not None:
        yield from _labels(spec.storage.labels, "spec.storage.labels")
    for index, variable in enumerate(pod.env):
        name = variable.get("name")
        if not isinstance(name, str) or not name:
            yield Problem(f"spec.pod.env[{index}].name", "is required")
        elif name in OUR_ENVIRONMENT:
            yield Problem(f"spec.pod.env[{index}].name", f"{name} is set by the operator")
    yield from _clients(spec)


def _twice(pod: PodOptions) -> Iterator[Problem]:
    """Return duplicate names of containers, volumes or variables in one pod."""
    lists = (
        {"sidecars": pod.sidecars, "initContainers": pod.init_containers},
        {"volumes": pod.volumes},
        {"env": pod.env},
    )
    for places in lists:
        seen: set[str] = set()
        for place, index, item in (
            (place, index, item)
            for place, items in places.items()
            for index, item in enumerate(items)
        ):
            name = item.get("name")
            if isinstance(name, str) and name in seen:
                yield Problem(f"spec.pod.{place}[{index}].name", f"{name} is listed twice")
            elif isinstance(name, str):
                seen.add(name)


def _place_in_cluster(pod: PodOptions) -> Iterator[Problem]:
    if pod.anti_affinity is AntiAffinity.REQUIRED and pod.affinity:
        yield Problem("spec.pod.antiAffinity", "spec.pod.affinity replaces it; use one of them")


def _probes(pod: PodOptions) -> Iterator[Problem]:
    """Refuse probes that would kill a server for one slow command, or before it can start."""
    times = pod.probes.liveness
    period = times.period_seconds if times.period_seconds is not None else 10
    failures = times.failure_threshold if times.failure_threshold is not None else 6
    if period * failures < _SHORTEST_LIFE:
        yield Problem(
            "spec.pod.probes.liveness",
            f"periodSeconds times failureThreshold must be at least {_SHORTEST_LIFE}: "
            "a server that is busy for a moment would be killed",
        )
    times = pod.probes.startup
    period = times.period_seconds if times.period_seconds is not None else 1
    if times.failure_threshold is not None and period * times.failure_threshold < _SHORTEST_START:
        yield Problem(
            "spec.pod.probes.startup",
            f"periodSeconds times failureThreshold must be at least {_SHORTEST_START}: "
            "a server that waits for a failover before it starts would be killed",
        )


def _mount(mount: Mapping[str, Any], volumes: set[Any], path: str) -> Iterator[Problem]:
    name, target = mount.get("name"), mount.get("mountPath")
    if not isinstance(name, str) or name not in volumes:
        yield Problem(f"{path}.name", "must be the name of one of spec.pod.volumes")
    if not isinstance(target, str) or not target.startswith("/") or ":" in target:
        yield Problem(f"{path}.mountPath", "must be a path that begins with / and has no colon")
        return
    clean = normpath(f"/{target.lstrip('/')}")  # two leading slashes would be kept
    if clean == "/" or any(clean == ours or clean.startswith(f"{ours}/") for ours in _OUR_FOLDERS):
        text = f"{clean} is reserved for the operator; choose another one"
        yield Problem(f"{path}.mountPath", text)


def _context(context: Mapping[str, Any], path: str) -> Iterator[Problem]:
    for name in ("runAsUser", "runAsGroup", "fsGroup"):
        value = context.get(name)
        if name in context and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            yield Problem(f"{path}.{name}", "must be a number above 0: servers never run as root")
    if context.get("runAsNonRoot") is False:
        yield Problem(f"{path}.runAsNonRoot", "must be true: servers never run as root")
    for name in ("privileged", "allowPrivilegeEscalation"):
        if context.get(name):
            yield Problem(f"{path}.{name}", "must be false")
    capabilities = context.get("capabilities")
    if isinstance(capabilities, Mapping) and capabilities.get("add"):
        yield Problem(f"{path}.capabilities.add", "must be empty")
    profile = context.get("seccompProfile")
    if isinstance(profile, Mapping) and profile.get("type") == "Unconfined":
        yield Problem(f"{path}.seccompProfile.type", "must be RuntimeDefault or Localhost")
    yield from _ways_around(context, path)


def _ways_around(context: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Return problems of less common fields that weaken the isolation of a container."""
    if context.get("procMount", "Default") != "Default":
        yield Problem(f"{path}.procMount", "must be Default")
    if context.get("windowsOptions"):
        yield Problem(f"{path}.windowsOptions", "must be absent: servers run on Linux")
    profile = context.get("appArmorProfile")
    if isinstance(profile, Mapping) and profile.get("type") == "Unconfined":
        yield Problem(f"{path}.appArmorProfile", "must be RuntimeDefault or Localhost")
    options = context.get("seLinuxOptions")
    if isinstance(options, Mapping) and (options.get("user") or options.get("role")):
        yield Problem(f"{path}.seLinuxOptions", "may name neither a user nor a role")
    settings = context.get("sysctls")
    for setting in settings if isinstance(settings, list) else []:
        if not isinstance(setting, Mapping) or setting.get("name") not in _SAFE_SYSCTLS:
            yield Problem(f"{path}.sysctls", f"use only {', '.join(sorted(_SAFE_SYSCTLS))}")
            return


def _container(container: Mapping[str, Any], path: str) -> Iterator[Problem]:
    name = container.get("name")
    if not isinstance(name, str) or not name:
        yield Problem(f"{path}.name", "is required")
    elif name in OUR_CONTAINERS:
        yield Problem(f"{path}.name", f"{name} is reserved for the operator; choose another one")
    if not isinstance(container.get("image"), str):
        yield Problem(f"{path}.image", "is required")
    context = container.get("securityContext")
    if isinstance(context, Mapping):
        yield from _context(context, f"{path}.securityContext")
    ports = container.get("ports")
    for index, port in enumerate(ports if isinstance(ports, list) else []):
        if isinstance(port, Mapping) and port.get("hostPort"):
            yield Problem(f"{path}.ports[{index}].hostPort", "must be absent")


def _volume(volume: Mapping[str, Any], path: str) -> Iterator[Problem]:
    name = volume.get("name")
    if not isinstance(name, str) or not name:
        yield Problem(f"{path}.name", "is required")
    elif name in _OUR_VOLUMES:
        yield Problem(f"{path}.name", f"{name} is reserved for the operator; choose another one")
    for source in volume:
        if source != "name" and source not in _VOLUMES:
            yield Problem(f"{path}.{source}", f"use one of {', '.join(sorted(_VOLUMES))}")


def _labels(labels: Mapping[str, str], path: str) -> Iterator[Problem]:
    for name, value in labels.items():
        if name.startswith(OUR_LABELS):
            yield Problem(f"{path}.{name}", "is set by the operator")
        elif not _LABEL.match(value):
            yield Problem(f"{path}.{name}", "must be a label value, like green-1")


def _clients(spec: RedisSpec) -> Iterator[Problem]:
    for index, peer in enumerate(spec.network_policy.clients):
        if not peer.keys() & {"podSelector", "namespaceSelector", "ipBlock"}:
            yield Problem(
                f"spec.networkPolicy.clients[{index}]",
                "must name podSelector, namespaceSelector or ipBlock",
            )
