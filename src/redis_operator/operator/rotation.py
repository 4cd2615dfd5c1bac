"""Changes of passwords, carried on a running database: no restart, no refused connection. IN-28

Each stage is written to the users' Secret before anything is done about it, and the next one begins
when all of this holds: every server that runs has what the stage asks for; the files that pods
mount and the binding that applications mount have had the time to be refreshed; and nobody is in
the middle of something with the old password. Whoever continues after a crash reads the stage from
the Secret and waits once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec.structs import replace

from redis_operator.api.redis import Redis
from redis_operator.manifests.facts import Facts, Passwords, Stage
from redis_operator.operator.children import Children
from redis_operator.operator.links import Target
from redis_operator.operator.logins import Logins
from redis_operator.operator.password_store import PasswordStore
from redis_operator.operator.passwords import advanced
from redis_operator.planning.degradations import Degradation
from redis_operator.planning.observed import Evidence, Observed, Unreachable

__all__ = ["Rotations"]


class Rotations:
    """The changes of passwords of all databases of one operator."""

    def __init__(
        self, children: Children, store: PasswordStore, logins: Logins, *, refresh_seconds: float
    ) -> None:
        self._children = children
        self._store = store
        self._logins = logins
        self._refresh_seconds = refresh_seconds
        self._since: dict[str, tuple[int, float]] = {}  # serial of a stage, and when it was seen
        self._problems: dict[str, Degradation] = {}

    async def settle(
        self,
        redis: Redis,
        facts: Facts,
        observed: Observed,
        targets: Mapping[str, Target],
        *,
        moving: bool,
    ) -> Facts:
        """Have servers know the passwords, and carry a change on if it can be; what is so now."""
        problems = await self._logins.apply(redis, observed, targets, facts.passwords)
        reasons = self._reasons(redis, facts.passwords, observed, moving=moving)
        if facts.passwords.rotation is not None and not problems and not reasons:
            facts = await self._advance(redis, facts)
            problems = await self._logins.apply(redis, observed, targets, facts.passwords)
            reasons = self._reasons(redis, facts.passwords, observed, moving=moving)
        self._note(redis, facts.passwords, [*problems, *reasons])
        return facts

    def problem(self, redis: Redis) -> Degradation | None:
        """Return why the passwords of a database are not yet what they should be."""
        return self._problems.get(redis.metadata.uid)

    def forget(self, uid: str) -> None:
        """Forget a database that is gone."""
        self._since.pop(uid, None)
        self._problems.pop(uid, None)

    async def _advance(self, redis: Redis, facts: Facts) -> Facts:
        passwords = advanced(facts.passwords)
        self._store.keep(redis, passwords)
        found = replace(facts, passwords=passwords)
        await self._children.ensure_secrets(redis, found)
        return found

    def _reasons(
        self, redis: Redis, passwords: Passwords, observed: Observed, *, moving: bool
    ) -> list[str]:
        """Return why the next stage may not begin yet."""
        rotation = passwords.rotation
        if rotation is None:
            return []
        found = [
            f"{node.pod.name} does not respond"
            for node in (*observed.nodes, *observed.sentinels)
            if isinstance(node, Unreachable) and node.evidence is not Evidence.NOT_STARTED
        ]
        if rotation.stage is Stage.USE:
            if self._store.binding(redis) != passwords.default:
                found.append("the binding does not have the new password yet")
            if moving:
                found.append("slots are moving")
        if self._left(redis, passwords) > 0:
            # Not how many seconds are left: the status would be written every second.
            accepts = "servers accept the old and the new password"
            within = f"{self._refresh_seconds:.0f} s"
            found.append(f"{accepts}; mounted Secrets are refreshed within {within}")
        return found

    def _left(self, redis: Redis, passwords: Passwords) -> float:
        """Return for how many seconds mounted files may still be those of the stage before."""
        now, uid = asyncio.get_running_loop().time(), redis.metadata.uid
        serial, since = self._since.get(uid, (0, now))
        if serial != passwords.serial:
            since = now
            self._since[uid] = (passwords.serial, now)
        return since + self._refresh_seconds - now

    def _note(self, redis: Redis, passwords: Passwords, reasons: list[str]) -> None:
        uid, text = redis.metadata.uid, "; ".join(reasons)
        self._problems.pop(uid, None)
        if passwords.rotation is not None:
            users = ", ".join(sorted(passwords.rotation.others))
            message = f"the passwords of {users} are being changed: {text}"
            self._problems[uid] = Degradation("Rotating", message)
        elif reasons:
            self._problems[uid] = Degradation("ServersNotUpdated", text)
