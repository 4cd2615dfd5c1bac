"""Changes of the spec, by name: what people do to a database in use."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from redis_operator.planning.advice import Switchover

from .database import SimulatedDatabase

__all__ = ["CHANGES", "Change"]

Change = Callable[[SimulatedDatabase, Random], None]


def shards_are_added(database: SimulatedDatabase, random: Random) -> None:
    """One or two more."""
    wanted = replace(database.wanted, shards=min(5, database.wanted.shards + random.choice([1, 2])))
    database.apply_spec(wanted)


def shards_are_removed(database: SimulatedDatabase, random: Random) -> None:
    """Down to three at least."""
    del random
    database.apply_spec(replace(database.wanted, shards=max(3, database.wanted.shards - 1)))


def replicas_are_added(database: SimulatedDatabase, random: Random) -> None:
    """One more per shard."""
    del random
    database.apply_spec(replace(database.wanted, replicas=min(2, database.wanted.replicas + 1)))


def replicas_are_removed(database: SimulatedDatabase, random: Random) -> None:
    """One fewer per shard, but one stays."""
    del random
    database.apply_spec(replace(database.wanted, replicas=max(1, database.wanted.replicas - 1)))


def the_template_changes(database: SimulatedDatabase, random: Random) -> None:
    """All pods have to be recreated."""
    database.image_works = True
    revision = str(int(database.revision) + 1 + random.randrange(3))
    database.apply_spec(database.wanted, revision=revision)


def the_image_is_broken_and_put_right(database: SimulatedDatabase, random: Random) -> None:
    """A template whose pods never come up; the next change puts it right."""
    database.image_works = False
    the_revision = str(int(database.revision) + 1)
    database.apply_spec(database.wanted, revision=the_revision)
    database.repair_after(random.choice([3.0, 8.0]))


def a_setting_changes(database: SimulatedDatabase, random: Random) -> None:
    """Live, on all servers."""
    policy = random.choice(["allkeys-lru", "volatile-ttl", "noeviction"])
    config = dict(database.wanted.config) | {"maxmemory-policy": policy}
    database.apply_spec(replace(database.wanted, config=tuple(sorted(config.items()))))


def a_server_is_set_by_hand(database: SimulatedDatabase, random: Random) -> None:
    """Drift."""
    if database.servers:
        random.choice(database.servers).config["cluster-node-timeout"] = "9000"


def it_sleeps(database: SimulatedDatabase, random: Random) -> None:
    """Hibernate."""
    del random
    if database.wanted.persistent:
        database.apply_spec(replace(database.wanted, hibernate=True))


def it_wakes(database: SimulatedDatabase, random: Random) -> None:
    """And back."""
    del random
    database.apply_spec(replace(database.wanted, hibernate=False))


def a_person_asks_for_a_primary(database: SimulatedDatabase, random: Random) -> None:
    """Switchover on request."""
    pods = database.pods
    if pods:
        pod = random.choice(pods)
        stays = pod.shard < database.wanted.shards
        if stays and pod.ordinal < database.wanted.pods_per_shard:
            wanted = replace(database.wanted, switchover=Switchover(pod=pod.name))
            database.apply_spec(wanted)
            database.forget_request_after(10.0)


CHANGES: tuple[Change, ...] = (
    shards_are_added,
    shards_are_removed,
    replicas_are_added,
    replicas_are_removed,
    the_template_changes,
    the_image_is_broken_and_put_right,
    a_setting_changes,
    a_server_is_set_by_hand,
    it_sleeps,
    it_wakes,
    a_person_asks_for_a_primary,
)
