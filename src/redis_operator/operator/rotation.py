"""Rotations of passwords on a running database: no restart, no refused connection. IN-28

Each stage is written to the users' Secret before anything is done about it, and the next one begins
when all of this is true: every running server has what the stage asks for; the files that pods
mount and the binding that applications mount have had the time to be refreshed; and no operation
with the old password is in progress. After a crash the next operator reads the stage from the
Secret and waits once more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from kubecontroller import Key
from redis_operator.api.redis import Redis
from redis_operator.manifests.facts import Facts, Passwords, RotationStage
from redis_operator.manifests.layouts import layout_of
from redis_operator.operator.jobs import Job, Jobs, loop_time
from redis_operator.operator.objects.children import Children
from redis_operator.operator.password_store import PasswordStore
from redis_operator.operator.passwords import advanced, outlived
from redis_operator.operator.servers.links import Target
from redis_operator.operator.servers.logins import Logins
from redis_operator.planning.observed import Evidence, Observed, Unreachable
from redis_operator.planning.reporting.degradations import Degradation

__all__ = ["Rotations", "oldest_start"]

_Stage = tuple[str, int]  # the uid of a database, and the serial of its passwords


class Rotations(Jobs[_Stage, None]):
    """The rotations of passwords of all databases of one operator."""

    def __init__(
        self,
        children: Children,
        store: PasswordStore,
        logins: Logins,
        *,
        refresh_seconds: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._children = children
        self._store = store
        self._logins = logins
        self._refresh_seconds = refresh_seconds
        self._clock = clock

    async def settle(
        self,
        redis: Redis,
        facts: Facts,
        observed: Observed,
        targets: Mapping[str, Target],
        *,
        moving: bool,
    ) -> Facts:
        """Have servers accept the passwords, continue a rotation if possible; return the facts."""
        problems = await self._logins.apply(redis, observed, targets, facts)
        reasons = self._reasons(redis, facts.passwords, observed, moving=moving)
        if not problems and not reasons:
            passwords = self._next(redis, facts.passwords, observed)
        else:
            passwords = facts.passwords
        if passwords != facts.passwords:
            facts = await self._write(redis, facts, passwords)
            problems = await self._logins.apply(redis, observed, targets, facts)
            reasons = self._reasons(redis, facts.passwords, observed, moving=moving)
        self._note(redis, facts.passwords, [*problems, *reasons])
        if facts.filling is not None and facts.shuts_out and not problems:
            facts = replace(facts, filling=replace(facts.filling, shut=True))
        if facts.opening is not None and not problems:
            facts = replace(facts, opening=replace(facts.opening, opened=True))
        return facts

    def problem(self, redis: Redis) -> Degradation | None:
        """Return why the passwords of a database are not yet as they should be."""
        return next((stage.problem for stage in self.under_way(_key(redis))), None)

    def _next(self, redis: Redis, passwords: Passwords, observed: Observed) -> Passwords:
        """Return the passwords as they may be from now on."""
        if passwords.rotation is not None:
            return advanced(passwords, now=self._clock())
        if observed.unlabelled:
            return passwords  # there is a pod that was not observed
        return outlived(passwords, oldest_start(redis, observed, now=self._clock()))

    async def _write(self, redis: Redis, facts: Facts, passwords: Passwords) -> Facts:
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
        found += [f"{pod.pod} lost labels and is not observed" for pod in observed.unlabelled]
        if rotation.stage is RotationStage.USE:
            if self._store.binding(redis) != passwords.default:
                found.append("the binding does not have the new password yet")
            if moving:
                found.append("slots are moving")
        if loop_time() < self._stage(redis, passwords).begun + self._refresh_seconds:
            # Without the remaining seconds: otherwise the status would be written every second.
            accepts = "servers accept the old and the new password"
            within = f"{self._refresh_seconds:.0f} s"
            found.append(f"{accepts}; mounted Secrets are refreshed within {within}")
        return found

    def _stage(self, redis: Redis, passwords: Passwords) -> Job[_Stage, None]:
        """Return the current stage of the passwords, since it was first seen."""
        key, now = _key(redis), (redis.metadata.uid, passwords.serial)
        found = self.begin(key, (), now)
        if found.what == now:
            return found
        self.forget(key)
        return self.begin(key, (), now)

    def _note(self, redis: Redis, passwords: Passwords, reasons: list[str]) -> None:
        stage, text = self._stage(redis, passwords), "; ".join(reasons)
        stage.problem = None
        if passwords.rotation is not None:
            users = ", ".join(sorted(passwords.rotation.others))
            message = f"the passwords of {users} are being changed: {text}"
            stage.problem = Degradation("Rotating", message)
        elif reasons:
            stage.problem = Degradation("ServersNotUpdated", text)


def _key(redis: Redis) -> Key:
    return redis.metadata.namespace, redis.metadata.name


def oldest_start(redis: Redis, observed: Observed, *, now: float) -> float:
    """Return when the oldest pod started that may have an exporter."""
    beside, workload = layout_of(redis).sentinels, observed.sentinel_workload
    exports = beside is not None and beside.exporter(redis.spec)
    known = workload.revision if workload is not None and workload.current else None
    watchers = (n.pod for n in observed.sentinels if exports or n.pod.revision != known)
    pods = (*(node.pod for node in observed.nodes), *watchers)
    return min((pod.since for pod in pods), default=now)
