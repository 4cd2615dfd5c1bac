"""The status of a `RedisFailover`: that of its `Redis`, or why its spec is not applied. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kubecontroller.custom import dated
from redis_operator.api.metadata import Condition
from redis_operator.api.redisfailover import RedisFailoverStatus
from redis_operator.api.status import Phase, RedisStatus
from redis_operator.api.validation import load_status
from redis_operator.planning.reporting.conditions import bounded

__all__ = ["Refusal", "failover_status"]


class Refusal(Struct, frozen=True):
    """Why a spec is not applied: in one word, and in sentences."""

    reason: str
    messages: tuple[str, ...]

    @property
    def text(self) -> str:
        """The sentences as one, short enough to be read."""
        return bounded("; ".join(self.messages))


def failover_status(
    generation: int,
    redis: dict[str, Any] | None,
    refusal: Refusal | None,
    *,
    previous: RedisFailoverStatus,
    now: str,
    words: Callable[[str], str] = str,
) -> RedisFailoverStatus:
    """Return the whole status.

    `redis` is the `Redis` that is owned, None where there is none. Its conditions are about this
    generation once the operator has observed the newest spec of it; before that they are reported
    unchanged, with their old generation. `words` replaces the paths of the `Redis` by those of this
    kind.
    """
    seen = load_status(redis) if redis is not None else RedisStatus()
    current = redis is not None and (
        seen.observed_generation == redis["metadata"].get("generation", 0)
    )
    about = generation if current or refusal is not None else previous.observed_generation
    conditions = tuple(
        replace(c, observed_generation=about, message=words(c.message)) for c in seen.conditions
    )
    message, phase = words(seen.message), seen.phase or Phase.PENDING
    if refusal is not None:
        ready = _ready(refusal.reason, refusal.text)
        message = refusal.text
        phase = seen.phase or Phase.FAILED
    elif not conditions:
        message = "the Redis was applied and has not been reconciled yet"
        ready = _ready("NotFormed", message)
    else:
        ready = None
    if ready is not None:
        was = next((c for c in previous.conditions if c.type == "Ready"), None)
        ready = dated(replace(ready, observed_generation=about), was, now)
        conditions = (ready, *(c for c in conditions if c.type != "Ready"))
    return RedisFailoverStatus(
        observed_generation=about,
        redis=redis["metadata"]["name"] if redis is not None else "",
        phase=phase,
        message=message,
        conditions=conditions,
        ready=seen.ready,
        primary=seen.primary,
        version=seen.version,
        endpoints=seen.endpoints,
        binding=seen.binding,
    )


def _ready(reason: str, message: str) -> Condition:
    return Condition(type="Ready", status="False", reason=reason, message=message)
