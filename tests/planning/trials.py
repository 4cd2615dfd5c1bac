"""Trials drawn from one number: which breakages, which changes, how many replicas, with whom.

`SEED` chooses all trials of a run; a failing one prints its own number, and `Trial` repeats it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from msgspec.structs import replace

from kubecontroller.testing.seeds import derive
from redis_operator.planning.advice import Wanted
from redis_operator.redis.slots import ALL_SLOTS
from redis_testing.cluster.breakages import draw_breakages, files_are_broken
from redis_testing.cluster.changes import CHANGES
from redis_testing.cluster.trial import Trial

Draw = Callable[[int], Trial]


def wanted(replicas: int = 1, *, persistent: bool = True) -> Wanted:
    return Wanted(
        name="db",
        shards=3,
        replicas=replicas,
        persistent=persistent,
        volatile=not persistent,
        start_empty=not persistent,  # what was only in memory does not come back
        node_timeout_ms=2000,
        config=(("cluster-node-timeout", "2000"),),
    )


def broken(seed: int) -> Trial:
    """A database that is broken in one to four ways."""
    random = Random(seed)
    return Trial(
        seed=seed,
        wanted=wanted(random.choice([1, 1, 2]), persistent=random.random() < 0.75),
        breakages=draw_breakages(random, [1, 2, 3, 4]),
        rivals=random.random() < 0.5,
    )


def changed(seed: int) -> Trial:
    """A database whose spec changes while something may be broken."""
    random = Random(seed)
    return Trial(
        seed=seed,
        wanted=wanted(random.choice([1, 1, 2]), persistent=random.random() < 0.75),
        breakages=draw_breakages(random, [0, 1, 1, 2]),
        changes=random.choices(CHANGES, k=random.choice([1, 2, 3])),
        rivals=random.random() < 0.5,
    )


def with_broken_files(seed: int) -> Trial:
    """A database one of whose servers cannot load its files, among other breakages."""
    random = Random(seed)
    breakages = draw_breakages(random, [0, 1, 2])
    breakages.insert(random.randrange(len(breakages) + 1), files_are_broken)
    return Trial(
        seed=seed,
        # A majority may be lost with the files: then a person lets replicas take over.
        wanted=replace(wanted(random.choice([1, 2])), accepted_loss=ALL_SLOTS),
        breakages=breakages,
        rivals=random.random() < 0.5,
    )


def drawn(draw: Draw, part: int, count: int) -> Iterator[Trial]:
    """The trials of one part of this run."""
    for number in range(count):
        yield draw(derive(draw.__name__, part * count + number))
