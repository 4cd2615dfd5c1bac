"""Rounds of pings that are left out because they would change nothing change nothing indeed."""

from __future__ import annotations

import pytest

from kubecontroller.testing.seeds import derive
from redis_testing.cluster import SimulatedCluster, bus, quiet
from redis_testing.simulation.histories import play_trial

TRIALS = 2


def told(number: int) -> str:
    trial = play_trial(derive("quiet rounds", number))
    return "\n".join([*trial.log, trial.explain()])


def test_histories_are_the_same_without_the_rounds_that_tell_nothing_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = [told(number) for number in range(TRIALS)]
    monkeypatch.setattr(quiet, "is_settled", lambda *_: False)
    assert [told(number) for number in range(TRIALS)] == usual


def formed() -> SimulatedCluster:
    world = SimulatedCluster(seed=1)
    for name in ("a", "b", "c"):
        world.add(name)
    for other in ("b", "c"):
        introduce(world, "a", other)
        world.advance(1.0)
    world.advance(2.0)
    return world


def introduce(world: SimulatedCluster, one: str, other: str) -> None:
    bus.shake_hands(world, world.servers[one], world.servers[other].ip, meet=True)


def rounds(world: SimulatedCluster) -> bool:
    """Whether the next round of pings takes place."""
    return world._round_of_pings(list(world.servers.values()))


def test_a_world_at_rest_has_no_rounds_and_whatever_happens_brings_them_back() -> None:
    def kill(world: SimulatedCluster) -> None:
        world.kill("b")

    def freeze(world: SimulatedCluster) -> None:
        world.servers["b"].stopped = True

    def cut(world: SimulatedCluster) -> None:
        world.part(["a"], ["b"])

    def forget(world: SimulatedCluster) -> None:
        del world.servers["a"].table[world.servers["b"].id]

    def claim(world: SimulatedCluster) -> None:
        world.servers["a"].me.slots = 1

    def rise(world: SimulatedCluster) -> None:
        world.servers["a"].me.epoch += 1

    def move(world: SimulatedCluster) -> None:
        world.kill("b")
        world.start("b", address=world.new_address())

    def join(world: SimulatedCluster) -> None:
        world.add("d")

    def meet(world: SimulatedCluster) -> None:
        world.add("d").alive = False
        introduce(world, "a", "d")

    assert not rounds(formed())
    for happens in (kill, freeze, cut, forget, claim, rise, move, join, meet):
        world = formed()
        happens(world)
        assert rounds(world), happens.__name__
