"""Trials: break a database, let the operator work on it with interruptions, see what became of it.

Deterministic by seed. The operator is the real one from the probe to the wire; it dies before,
after and around any effect of any plan and starts again with what it sees; time passes by random
amounts; whatever was frozen or cut comes back half-way, as it does in life. A client writes growing
numbers all the time. Used by the property tests and by longer campaigns.

What counts: every value that was acknowledged is on some server or disk at all times, and is what
a client reads in the end, from any server, by following redirections. With storage, no loss is
ever reported. The database settles, and is what its spec says; where the status asks a person for
something, one does it, and nothing that was acknowledged may be lost by that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random

from redis_operator.planning.advice import Plan, Wanted
from redis_operator.planning.observed import Observed

from ..simulation.clients import Ledger, Writer
from ..simulation.process import Effect
from .breakages import Breakage
from .changes import Change
from .database import SimulatedDatabase
from .disk import make_room
from .operating import SimulatedOperator
from .person import follow_advice
from .reading import read_as_client
from .state import Server
from .world import SimulatedCluster

__all__ = ["Trial"]

_HEALED_BY_THEN = 14  # passes after which frozen servers and cut networks are back
_PATIENCE = 140  # passes in which nothing was changed, and it had not settled
_A_PERSON_COMES = 60  # of these: then a person does what the status asks for
_MOST_PASSES = 700  # an operator that changes things for ever is at fault as well
_TAIL_SECONDS = 2.0  # writes this young may not have reached a replica
_SERVES_SECONDS = 3.0  # a server that has just started refuses clients for its node timeout
_KEYS = 40
_DESTRUCTIVE = (
    "MIGRATE",
    "UNLINK",
    "EVALSHA",
    "EXEC",
    "REPLICATE",
    "RESET",
    "FAILOVER",
    "DELETE",
)


@cache
def _is_destructive(kind: str) -> bool:
    return any(word in kind for word in _DESTRUCTIVE)


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
        self.ledger = Ledger(self.world, self.wanted.name)
        self._writer = Writer(self.ledger, seed=self.seed, keys=_KEYS)
        self._written_at: dict[str, float] = {}
        self._stale: tuple[Plan, Observed] = (Plan(), Observed())
        self._rival: SimulatedOperator | None = None
        self.database.operator.journal.told.append(self._check_effect)

    def run(self) -> str:
        """Play it to the end; the verdict, empty when all is well."""
        self._prepare()
        changes = list(self.changes)
        effects = self.database.operator.journal.effects
        changed, idle = len(effects), 0
        for turn in range(_MOST_PASSES):
            self._life_goes_on(turn)
            if changes and self.random.random() < 0.5:
                change = changes.pop(0)
                self._say(f"change: {change.__name__}")
                change(self.database, self.random)
            self._pass()
            if self.verdict:
                return self.verdict
            done = self.last.settled and not self.last.count_strays_on
            busy = changes or self.database.later or self.database.operator.is_moving
            idle = idle + 1 if len(effects) == changed else 0
            changed = len(effects)
            if idle >= _A_PERSON_COMES and self._a_person_helps():
                idle = 0
            if (done and not busy and turn > _HEALED_BY_THEN + 8) or idle == _PATIENCE:
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

    # What happens to it

    def _prepare(self) -> None:
        for number in range(_KEYS):
            self._write(f"k{number}")
        self.database.observe()  # the operator knows who is who before anything breaks
        self.world.advance(0.5)
        for breakage in self.breakages:
            self._say(f"breakage: {breakage.__name__}")
            answering = [s for s in self.database.servers if s.answers(self.world.now)]
            breakage(self.database, self.random)
            for server in answering:
                if not server.answers(self.world.now) or not server.ip:
                    self._excuse(server)
            self._promise_strays()
            self._write_some()
            self.database.advance(self.random.choice([0.0, 0.0, 0.3, 2.0]))

    def _promise_strays(self) -> None:
        """Keys that a breakage put somewhere count like all others."""
        for key, values in self.world.everywhere(self.wanted.name).items():
            self.ledger.promised.setdefault(key, max(int(value) for value in values))

    def _excuse(self, stopped: Server) -> None:
        """A server stopped: what it acknowledged a moment ago and no other has may be lost."""
        if not stopped.is_primary:
            return
        others = [s for s in self.database.servers if s is not stopped]
        for slot, held in stopped.keys.items():
            for key, value in held.items():
                young = self.world.now - self._written_at.get(key, 0.0) < _TAIL_SECONDS
                promised = self.ledger.promised.get(key, -1)
                best = max((int(o.keys.get(slot, {}).get(key, -1)) for o in others), default=-1)
                if young and best < promised == int(value):
                    self._lower(key, best)

    def _lower(self, key: str, number: int) -> None:
        if number < 0:
            self.ledger.promised.pop(key, None)
        else:
            self.ledger.promised[key] = number

    def _write_some(self) -> None:
        for _ in range(2):
            self._write(f"k{self.random.randrange(_KEYS)}")

    def _write(self, key: str) -> None:
        """Write as a client does. The reply of a server that is cut off does not count: it may be
        deposed."""
        before = self.ledger.promised.get(key, -1)
        if not self._writer.write(key):
            return
        self._written_at[key] = self.world.now
        cut = {name for pair in self.world.cut for name in pair}
        if cut and any(
            self._has_last(server, key) for server in self.database.servers if server.name in cut
        ):
            self._lower(key, before)

    def _has_last(self, server: Server, key: str) -> bool:
        number = str(self.ledger.promised.get(key))
        return server.is_primary and any(h.get(key) == number for h in server.keys.values())

    def _life_goes_on(self, turn: int) -> None:
        """Containers are started again; what was cut or frozen comes back."""
        if turn == _HEALED_BY_THEN:
            self.world.cut.clear()
            self._make_room()
            for server in self.world.servers.values():
                if server.stopped:
                    server.stopped, server.woken_at = False, self.world.now
        if turn >= _HEALED_BY_THEN:
            self._strangers_part_from_us()
        if turn in (6, _HEALED_BY_THEN, 20):
            for pod in self.database.pods:
                startable = self.database.image_works and pod.name not in self.database.broken
                if not self.world.servers[pod.name].alive and startable:
                    self.world.start(pod.name)

    def _make_room(self) -> None:
        for server in self.world.servers.values():
            if server.disk_full:
                make_room(self.world, server)

    def _strangers_part_from_us(self) -> None:
        """The operator of another database forgets these nodes as often as this one forgets its
        nodes."""
        ours = {server.id for server in self.database.servers}
        for server in self.world.servers.values():
            if server.database != self.wanted.name:
                for node in ours & server.table.keys():
                    del server.table[node]
                    server.banned[node] = self.world.now + 60

    def _a_person_helps(self) -> bool:
        """Whether the plan asks for something that a person can do, and one has done it."""
        done = follow_advice(self.world, self.last.blocked)
        for line in done:
            self._say(line)
            self._check(f"when {line}")
        return bool(done)

    # The operator's part

    def _pass(self) -> None:
        self.last = self.database.plan()
        seen = self.database.seen
        if self.rivals and self.random.random() < 0.3:
            self._act_as_rival(*self._stale)
        self._stale = (self.last, seen)
        self._carry_out(self.last)
        self._write_some()
        self.database.advance(self.random.choice([0.2, 0.5, 1.0, 2.0]))
        self._check("after time passed")

    def _act_as_rival(self, advice: Plan, seen: Observed) -> None:
        self._say(f"a second operator acts on what it saw before: {advice.rule}")
        if self._rival is None:
            self._rival = SimulatedOperator(self.database)
            self._rival.journal.told.append(self._check_effect)
        self._rival.effects_left = self._budget()
        for outcome in self._rival.carry_out(advice, seen):
            self._say(f"  {type(outcome.action).__name__}: {outcome.error or 'done'}")

    def _budget(self) -> int | None:
        """After how many effects the operator dies."""
        return self.random.choice([1, 1, 3, 9, None, None, None])

    def _carry_out(self, advice: Plan) -> None:
        self._say(f"{advice.rule}: {advice.why} {list(advice.blocked)} {list(advice.losses)}")
        bugs = [reason for reason in advice.blocked if "this is a bug" in reason]
        if bugs:
            self.verdict = bugs[0]
        elif advice.losses and self.wanted.persistent:
            self.verdict = f"with storage, nothing is lost: {advice.losses}"
        if self.verdict or not advice.stages:
            return
        before = self.database.operator.process
        for outcome in self.database.carry_out(advice, effects=self._budget()):
            if not outcome.done:
                self._say(f"  not done: {type(outcome.action).__name__}: {outcome.error}")
        if self.database.operator.process is not before:
            self._say("  the operator died")
            self.database.count_strays_on = frozenset()

    # The judge

    def _check_effect(self, effect: Effect) -> None:
        if _is_destructive(effect.kind):
            self._check(f"by {effect}")
        if self.random.random() < 0.2:
            self._write_some()

    def _check(self, when: str) -> None:
        if self.verdict:
            return
        gone = self.ledger.gone()
        if gone:
            self.verdict = f"keys lost {when}: {gone[:5]}"

    def _judge(self) -> str:
        if not self.last.settled:
            self.verdict = f"it never settled: {self.last.rule}: {self.last.blocked}"
            return self.verdict
        wrong = self._differs_from_the_spec()
        if wrong:
            self.verdict = wrong
            return wrong
        if self.database.wanted.hibernate:
            return self.verdict
        self.database.advance(_SERVES_SECONDS)
        for key, number in sorted(self.ledger.promised.items()):
            found = read_as_client(self.world, self.wanted.name, key, self.random)
            if found is None or int(found) < number:
                self.verdict = f"a client reads {found} of {key}, {number} was acknowledged"
                break
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
