"""Something that happens to a database: what is done to it, and when it is over.

Every scenario begins with a whole database that clients write to, or with none, and ends when the
operator has nothing left to do.
"""

from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from fcntl import LOCK_EX, flock
from hashlib import sha256
from pathlib import Path

from kubecontroller.client.meta import Manifest

from ..cluster.state import Server
from .summary import is_gone, mislabelled
from .system import DATABASE, NAMESPACE, Broken, Simulation, Snapshot, database, simulate

__all__ = [
    "SNAPSHOTS",
    "Act",
    "Over",
    "Scenario",
    "formed",
    "is_asleep",
    "mine",
    "play",
    "pods",
    "primary",
    "replica",
    "until_over",
]

Act = Callable[[Simulation], Awaitable[None]]
Over = Callable[[Simulation], bool]


@dataclass(frozen=True)
class Scenario:
    """One thing that happens, from its beginning to its end."""

    name: str
    act: Act
    over: Over = lambda _: True  # beside Ready
    base: Manifest | None = field(default_factory=database)  # formed before it begins
    exact_slots: bool = True
    within: float = 240.0
    sleeps: bool = False  # ends hibernated, not ready
    goes: bool = False  # ends deleted, not ready
    shut_out: bool = False  # clients are, until it is over

    def __str__(self) -> str:
        return self.name


async def play(simulation: Simulation, scenario: Scenario) -> None:
    """Let a scenario happen with an operator at work and clients that write, to its end."""
    simulation.start_operator()
    if scenario.base is not None:
        await asyncio.sleep(3.0)
    writing = None if scenario.shut_out else simulation.write_on()
    if scenario.goes:
        simulation.ledger.void()  # whoever deletes a database gives up its data
    await scenario.act(simulation)
    await until_over(simulation, scenario)
    if writing is not None:
        writing.cancel()
    await asyncio.sleep(1.0)
    simulation.check_end()


async def until_over(simulation: Simulation, scenario: Scenario) -> None:
    """Wait until all is as wanted, and the operator writes nothing any more."""

    async def holds() -> bool:
        if not scenario.over(simulation) or not simulation.is_calm():
            return False
        if scenario.goes:
            return is_gone(simulation)
        if mislabelled(simulation):
            return False  # no one has looked yet
        found = await simulation.redis()
        return is_asleep(found) if scenario.sleeps else simulation.is_ready(found)

    within = scenario.within
    await simulation.until_all(holds, within=within, what=f"over: {scenario.name}")
    loop = asyncio.get_running_loop()
    end = loop.time() + within * simulation.patience
    while loop.time() < end:
        seen = len(simulation.journal.effects)
        await asyncio.sleep(simulation.quiet_seconds)
        simulation.check()
        if len(simulation.journal.effects) == seen and await holds():
            return
    raise Broken(simulation.explain("the operator never comes to rest", await simulation.found()))


def is_asleep(found: Manifest) -> bool:
    """Return whether a database says that it hibernates."""
    status = found.get("status") or {}
    current = status.get("observedGeneration") == found["metadata"].get("generation")
    return current and status.get("phase") == "Hibernated"


_FORMED: dict[str, Snapshot] = {}
SNAPSHOTS = "REDIS_TESTING_SNAPSHOTS"
"""The variable that names a directory where the processes of one run share what they formed."""


def formed(manifest: Manifest) -> Snapshot:
    """Return a whole database with some data, made once for each spec."""
    name = repr(manifest)
    if name not in _FORMED:
        _FORMED[name] = _shared(manifest, sha256(name.encode()).hexdigest())
    return _FORMED[name]


def _shared(manifest: Manifest, name: str) -> Snapshot:
    """Take what another process of this run has formed, or form it for all of them."""
    directory = os.environ.get(SNAPSHOTS)
    if not directory:
        return simulate(lambda simulation: _form(simulation, manifest))
    place = Path(directory) / name
    with place.with_suffix(".lock").open("w") as turn:
        flock(turn, LOCK_EX)  # whoever needs it meanwhile waits, and does not form it too
        if place.exists():
            found: Snapshot = pickle.loads(place.read_bytes())  # noqa: S301 - our own run wrote it
            return found
        snapshot = simulate(lambda simulation: _form(simulation, manifest))
        unfinished = place.with_suffix(".unfinished")
        unfinished.write_bytes(pickle.dumps(snapshot))
        unfinished.replace(place)
        return snapshot


async def _form(simulation: Simulation, manifest: Manifest) -> Snapshot:
    simulation.start_operator()
    await simulation.apply(manifest)
    await simulation.until_ready()
    simulation.writer.fill()
    await asyncio.sleep(11.0)
    simulation.check_end()
    simulation.restarts = False
    for process in simulation.processes:
        process.die()
    await asyncio.sleep(1.0)
    return simulation.snapshot()


# Servers and pods


def mine(simulation: Simulation) -> list[Server]:
    """Return the servers of the database that live."""
    return [s for s in simulation.world.servers.values() if s.database == DATABASE and s.alive]


def primary(simulation: Simulation, shard: int = 0) -> Server:
    """Return the primary that runs in a pod of a shard."""
    prefix = f"{DATABASE}-{shard}-"
    return next(s for s in mine(simulation) if s.is_primary and s.name.startswith(prefix))


def replica(simulation: Simulation, shard: int = 0) -> Server:
    """Return the first replica that runs in a pod of a shard."""
    prefix = f"{DATABASE}-{shard}-"
    return next(s for s in mine(simulation) if not s.is_primary and s.name.startswith(prefix))


def pods(simulation: Simulation) -> list[Manifest]:
    """Return the pods of the database as the nodes know them."""
    return [p for p in simulation.kubelet.informer.cache if p["metadata"]["namespace"] == NAMESPACE]
