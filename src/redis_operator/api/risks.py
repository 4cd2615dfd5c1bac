"""Warnings: what is allowed and yet risky, reported to the person who asks for it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from .redis import Mode, OnDataLoss, Persistence, RedisSpec
from .shape import Problem

__all__ = ["risks"]


def risks(spec: RedisSpec) -> Iterator[Problem]:
    """A risk: the field that causes it, and what it means."""
    yield from _of_data(spec)
    yield from _of_availability(spec)
    if "memory" not in spec.resources.limits and "maxmemory" not in spec.config:
        yield Problem(
            "spec.resources.limits.memory",
            "without it and without spec.config.maxmemory a server may take all memory of its node",
        )


def _of_data(spec: RedisSpec) -> Iterator[Problem]:
    keeps = spec.storage is not None and spec.persistence is not Persistence.NONE
    if not keeps and spec.replicas == 0:
        yield Problem(
            "spec.replicas", "without replicas and files, a server that restarts loses its data"
        )
    if spec.durability.on_data_loss is OnDataLoss.START_EMPTY:
        yield Problem(
            "spec.durability.onDataLoss",
            "StartEmpty: where every copy of data is lost, servers start empty without asking",
        )


def _of_availability(spec: RedisSpec) -> Iterator[Problem]:
    if spec.mode is Mode.CLUSTER and spec.replicas == 0:
        yield Problem(
            "spec.replicas", "0: the slots of a server that fails are not served until it is back"
        )
    least = spec.durability.min_replicas_to_write
    if least and least == spec.replicas:
        yield Problem(
            "spec.durability.minReplicasToWrite",
            "as many as there are replicas: one that is down stops all writes",
        )
    if spec.sentinel is not None and spec.sentinel.replicas % 2 == 0:
        yield Problem(
            "spec.sentinel.replicas", "an even number tolerates no more failures than one less"
        )
