"""How servers spell values that they were given, if the tables of `redis.values` lack it.

A value that a server accepted with OK, and twice in a row read back as the same other text, is the
server's own spelling: setting it again would change nothing, and would never end. IN-26
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from kubecontroller import Key
from redis_operator.operator.execute import StepOutcome
from redis_operator.planning.actions import ConfigSet
from redis_operator.planning.observed import Observed, Spelling
from redis_operator.redis.config import equivalent

__all__ = ["Spellings"]


class Spellings:
    """What this process has learnt, for each database."""

    def __init__(self) -> None:
        self._asked: dict[Key, set[tuple[str, str, str]]] = {}  # (node, name, value) set with OK
        self._heard: dict[Key, dict[tuple[str, str, str], str]] = {}
        self._known: dict[Key, frozenset[Spelling]] = {}

    def asked(self, key: Key, outcomes: Iterable[StepOutcome]) -> None:
        """Remember what servers have just accepted."""
        self._asked[key] = {
            (outcome.action.node.id, name, value)
            for outcome in outcomes
            if outcome.done and isinstance(outcome.action, ConfigSet)
            for name, value in outcome.action.values
        }

    def heard(self, key: Key, observed: Observed) -> Observed:
        """Compare with their current answers; return the observation with all known spellings."""
        heard = self._heard.setdefault(key, {})
        nodes = {str(node.id): node for node in observed.seen}
        known = set(self._known.get(key, frozenset()))
        for asked in self._asked.pop(key, set()):
            node, name, value = asked
            answer = nodes[node].setting(name) if node in nodes else None
            if answer is None or equivalent(name, value, answer):
                heard.pop(asked, None)
            elif heard.get(asked) == answer:
                known.add(Spelling(name, value, answer))
            else:
                heard[asked] = answer
        self._known[key] = frozenset(known)
        return replace(observed, spellings=self._known[key])

    def forget(self, key: Key) -> None:
        """Forget a database that is gone."""
        for memory in (self._asked, self._heard, self._known):
            memory.pop(key, None)
