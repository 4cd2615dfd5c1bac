"""What a database of one mode consists of, as values: names, labels, ports, files, Services. Pure.

The labels of a pod say whether it belongs to a database, and to which group of it. Its name is only
used where labels were removed, so that they can be restored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from redis_operator.api.redis import Redis, RedisSpec
from redis_operator.redis.config import Directive
from redis_operator.redis.versions import Version

from .facts import Facts
from .names import CLIENT_PORT, DATABASE_LABEL, Place

__all__ = ["Layout", "Port", "Sentinels", "ServiceRow"]

_ORDINAL: Final = re.compile(r"(?P<workload>.+)-(?P<ordinal>\d+)")


class Port(Struct, frozen=True):
    """A port of the server's container."""

    name: str
    number: int


class ServiceRow(Struct, frozen=True):
    """One Service beside the governing one and the one for metrics."""

    name: Callable[[str], str]  # of the database's name
    role: str = ""  # selects pods by their role; empty: all of them
    optioned: bool = False  # follows spec.service: the Service for clients
    sentinels: bool = False  # selects the sentinels and not servers

    @property
    def key(self) -> str:
        """The name of the endpoint in the status."""
        found = {"primary": "primaries", "replica": "replicas", "": "clients"}[self.role]
        return "sentinels" if self.sentinels else found


class Sentinels(Struct, frozen=True):
    """The group of a mode whose pods run sentinels: no servers, and without data."""

    group: int
    labels: Mapping[str, str]
    port: Port
    pods: Callable[[RedisSpec], int]
    quorum: Callable[[RedisSpec], int]
    settings: Callable[[RedisSpec], tuple[tuple[str, str], ...]]  # of SENTINEL SET
    exporter: Callable[[RedisSpec], bool]  # whether one runs beside each


class Layout(Struct, frozen=True):
    """The objects of one mode. Every mode has one governing Service and one template of servers."""

    workload: Callable[[str, int], str]  # names the StatefulSet of a group
    group_of: Callable[[str, str], int | None]  # the group of a workload of that name, or None
    group_label: str  # the label with the group of a pod; part of selectors, so it never changes
    labels: Mapping[str, str]  # further labels that select pods
    scripts: Mapping[str, str]
    settings: Callable[[RedisSpec, Version], list[Directive]]
    files: Callable[[Redis, Facts], dict[str, str]]  # more files that pods read
    waits: Callable[[RedisSpec], dict[str, str]]  # variables for the scripts
    announces: Callable[[Redis, Version], dict[str, str]]  # variables on how others see the server
    ports: tuple[Port, ...]  # of the server, the one for clients first
    services: tuple[ServiceRow, ...]
    binding: Mapping[str, str]  # more keys of the connection Secret
    users: Mapping[str, Callable[[Version], str]]  # the users of servers, and their ACL rules
    everything: str = ""  # how a person names all data to accept its loss; empty: by slots
    sentinels: Sentinels | None = None
    is_sharded: bool = False  # keys are spread over groups by their slots

    def groups(self, spec: RedisSpec) -> tuple[int, ...]:
        """Return the numbers of the groups of a database, that of its sentinels last."""
        servers = tuple(range(spec.shards))
        return servers if self.sentinels is None else (*servers, self.sentinels.group)

    def pods(self, spec: RedisSpec, group: int) -> int:
        """Return the number of pods of a group in the spec."""
        found = self.sentinels
        if found is not None and found.group == group:
            return found.pods(spec)
        return 1 + spec.replicas

    def is_sentinel(self, group: int) -> bool:
        """Return whether the pods of a group run sentinels."""
        return self.sentinels is not None and self.sentinels.group == group

    def port(self, group: int) -> int:
        """Return the port of the pods of a group."""
        found = self.sentinels
        return found.port.number if found is not None and found.group == group else CLIENT_PORT

    def group_labels(self, group: int) -> dict[str, str]:
        """Return the labels of the objects of one group."""
        found = self.sentinels
        labels = found.labels if found is not None and found.group == group else self.labels
        return dict(labels) | {self.group_label: str(group)}

    def selector(self, database: str, group: int) -> dict[str, str]:
        """Return the labels that select the pods of a group. They never change."""
        return {DATABASE_LABEL: database} | self.group_labels(group)

    def pod(self, database: str, group: int, ordinal: int) -> str:
        """Return the name of one pod of a group."""
        return f"{self.workload(database, group)}-{ordinal}"

    def claim(self, database: str, group: int, ordinal: int) -> str:
        """Return the name of the volume claim of one pod."""
        return f"data-{self.pod(database, group, ordinal)}"

    def group_labelled(self, labels: Mapping[str, str]) -> int | None:
        """Return the group of an object from its labels; None: they do not say."""
        number = labels.get(self.group_label, "")
        return int(number) if number.isdecimal() else None

    def place_of(
        self, database: str, pod: str, labels: Mapping[str, str] | None = None
    ) -> Place | None:
        """Return the place of a pod, by its labels, else by its name; None: not of this database.

        The number within the group is the end of the name, as StatefulSets give names.
        """
        match = _ORDINAL.fullmatch(pod)
        if match is None:
            return None
        named = self.group_of(database, match["workload"])
        labelled = self.group_labelled(labels or {})
        group = labelled if labelled is not None else named
        if named is None or group is None:
            return None
        return Place(group, int(match["ordinal"]))
