"""Trials: break a database, let the operator work on it with interruptions, see what became of it.

Deterministic by seed. The operator is stopped after any command of any plan and starts anew with
what it sees; time passes by random amounts; whatever was frozen or cut comes back half-way, as it
does in life. Used by the property tests and by longer campaigns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from ...planning.actions import Action
from ...planning.advice import Plan, Wanted
from ...planning.counting import Census
from .breakages import Breakage, fill
from .changes import Change
from .database import SimulatedDatabase
from .world import SimulatedCluster

__all__ = ["Trial"]

_HEALED_BY_THEN = 14  # passes after which frozen servers and cut networks are back
_PATIENCE = 140


@dataclass
class Trial:
    """One history of one database."""

    seed: int
    wanted: Wanted
    breakages: Sequence[Breakage] = ()
    changes: Sequence[Change] = ()  # of the spec, made while the operator works
    rivals: bool = False  # another operator acts too, on what it saw a while ago
    log: list[str] = field(default_factory=list)
    verdict: str = ""  # what went wrong, or nothing

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.world = SimulatedCluster(seed=self.seed)
        self.database = SimulatedDatabase.formed_already(self.world, self.wanted)
        self.last = Plan()
        self.kept: set[str] = set()

    def run(self) -> str:
        """Play it to the end; the verdict, empty when all is well."""
        fill(self.database)
        for breakage in self.breakages:
            self._say(f"breakage: {breakage.__name__}")
            breakage(self.database, self.random)
            self.database.advance(self.random.choice([0.0, 0.0, 0.3, 2.0]))
        self.kept = self.world.held_by_the_living(self.wanted.name)
        changes = list(self.changes)
        for turn in range(_PATIENCE):
            self._life_goes_on(turn)
            if changes and self.random.random() < 0.5:
                change = changes.pop(0)
                self._say(f"change: {change.__name__}")
                change(self.database, self.random)
            self._pass()
            if self.verdict:
                return self.verdict
            done = (self.last.settled and not self.last.count_on) or self.last.losses
            busy = changes or self.database.later
            if done and not busy and turn > _HEALED_BY_THEN + 8:
                break
        return self._judge()

    def explain(self) -> str:
        """The whole history, for a failing test."""
        lines = [f"seed {self.seed}: {self.verdict}", *self.log]
        for server in self.world.servers.values():
            role = "primary" if server.is_primary else f"replica of {str(server.me.replica_of)[:8]}"
            lines.append(
                f"{server.name} {server.id[:8]} {role} epoch {server.me.epoch} "
                f"slots {server.slots} keys {server.key_count} offset {server.offset} "
                f"alive {server.alive} link {server.link_up}"
            )
        return "\n".join(lines)

    def _say(self, text: str) -> None:
        self.log.append(f"{self.world.now:8.1f} {text}")

    def _life_goes_on(self, turn: int) -> None:
        """Containers are started again; what was cut or frozen comes back."""
        if turn == _HEALED_BY_THEN:
            self.world.cut.clear()
            for server in self.world.servers.values():
                server.stopped = False
            self._strangers_part_from_us()
        if turn in (6, _HEALED_BY_THEN, 20):
            for pod in self.database.pods:
                startable = self.database.image_works and pod.name not in self.database.broken
                if not self.world.servers[pod.name].alive and startable:
                    self.world.start(pod.name)

    def _strangers_part_from_us(self) -> None:
        """Another database's operator forgets us, as ours forgets them."""
        ours = {server.id for server in self.database.servers}
        for server in self.world.servers.values():
            if server.database != self.wanted.name:
                for node in ours & server.table.keys():
                    del server.table[node]
                    server.banned[node] = self.world.now + 60

    def _pass(self) -> None:
        stale, self.last = self.last, self.database.plan()
        if self.rivals and self.random.random() < 0.3:
            self._say("a second operator acts on what it saw before")
            self._carry_out(stale)
        self._carry_out(self.last)
        self.database.advance(self.random.choice([0.2, 0.5, 1.0, 2.0]))
        self._check("after time passed")

    def _carry_out(self, advice: Plan) -> None:
        self._say(f"{advice.rule}: {advice.why} {list(advice.blocked)} {list(advice.losses)}")
        bugs = [reason for reason in advice.blocked if "this is a bug" in reason]
        if bugs:
            self.verdict = bugs[0]
            return
        budget = self.random.choice([0, 1, 3, 9, 10_000, 10_000, 10_000])
        for stage in advice.stages:
            outcomes = []
            for action in stage:
                outcome, budget = self._do(action, budget)
                outcomes.append(outcome)
            if budget <= 0:
                self.database.census = Census()  # the operator died, and its memory with it
                self.database.count_on = frozenset()
            if self.verdict or budget <= 0 or any(outcomes):
                break

    def _do(self, action: Action, budget: int) -> tuple[str, int]:
        """Carry out an action until it is done, refused, or the operator dies."""
        outcome = ""
        for progress in self.database.execute(action):
            budget -= 1
            self._check(f"by {action}")
            if progress not in ("more", ""):
                outcome = progress
                self._say(f"  refused: {type(action).__name__}: {progress}")
            if budget <= 0 or self.verdict:
                break
        return outcome, budget

    def _check(self, when: str) -> None:
        if self.verdict:
            return
        lost = self.kept - self.world.everywhere(self.wanted.name).keys()
        if lost:
            self.verdict = f"keys lost {when}: {sorted(lost)[:5]}"

    def _judge(self) -> str:
        if not self.last.settled and not self.last.losses:
            self.verdict = f"it never settled: {self.last.rule}: {self.last.blocked}"
            return self.verdict
        wrong = "" if self.last.losses else self._differs_from_the_spec()
        if wrong:
            self.verdict = wrong
            return wrong
        if self.database.wanted.hibernate:
            return self.verdict
        hidden = [k for k in self.kept if self.world.read(self.wanted.name, k) is None]
        if hidden:
            self.verdict = f"keys that clients cannot see: {sorted(hidden)[:5]}"
        return self.verdict

    def _differs_from_the_spec(self) -> str:
        """What a settled database still has that was not asked for."""
        database, wanted = self.database, self.database.wanted
        expected = 0 if wanted.hibernate else wanted.shards * wanted.pods_per_shard
        if len(database.pods) != expected:
            return f"{len(database.pods)} pods, not {expected}"
        if wanted.hibernate:
            return ""
        if set(database.workloads) != set(range(wanted.shards)):
            return f"workloads of shards {sorted(database.workloads)}"
        old = [pod.name for pod in database.pods if pod.revision != database.revision]
        if old:
            return f"{old} are of an old revision"
        sizes = [len(s.slots) for s in database.servers if s.is_primary]
        if len(sizes) != wanted.shards or max(sizes) - min(sizes) > 1:
            return f"primaries with {sizes} slots"
        for server in database.servers:
            drift = [n for n, v in wanted.config if server.config[n] != v]
            known = len(server.table)
            if drift or known != expected:
                return f"{server.name} differs in {drift} and knows {known} nodes"
        return ""
