"""A new database follows an external server, and is promoted when the spec no longer names it."""

from __future__ import annotations

from msgspec.structs import replace

from ..advice import ACCEPT_LOSS, Plan, PlanPhase
from ..at import at
from ..copies import Hindrance, address, behind, hindrance, is_linked, unrecordable
from ..failover.actions import Follow, FollowSource, Promote
from ..fence import Fence
from ..observed import Seen
from ..one_group import OneGroup
from ..sources import SourceSilent
from .configure import configure
from .grow import grow

__all__ = ["breaches", "follow_source"]

_RECORD_SECONDS = 0.5  # the pass ends: the status is written before the next one begins
_LOOK_SECONDS = 2.0
_SOON_SECONDS = 0.5
_LAG_BYTES = 1024 * 1024
_RULE = "follow_source"


def follow_source(topology: OneGroup) -> Plan | None:
    """Have one server follow the source and the others follow that one; promote it on request. I1

    Meanwhile only changes that need no restart are made. A database that has data of its own is
    never made to follow a source: it reports that, and continues.

    No later rule may act on a copy, also while these steps have no effect: it would choose a
    primary, and the copy would end with what has arrived.
    """
    if not topology.is_copy:
        return _too_late(topology)
    advice = _copying(topology)
    return replace(advice, final=True) if advice is not None else None


def _copying(topology: OneGroup) -> Plan | None:
    """Record, follow, or promote; None: a person gave up what has not arrived."""
    if topology.wanted.source is None:
        return _promotion(topology)
    if not topology.observed.copied:
        reason = unrecordable(topology.observed, topology.missing_pods)
        return _wait(topology, reason or "the status records that servers hold a copy")
    steps = _following(topology)
    if steps is not None:
        return steps
    if topology.wanted.source.backup and any(map(is_linked, topology.heads)):
        return _promotion(topology)
    return _running(topology) or _wait(topology, "", again=_LOOK_SECONDS)


def _too_late(topology: OneGroup) -> Plan | None:
    source = topology.wanted.source
    if source is None:
        return None
    if source.backup:
        reason = (
            f"backup {source.backup} is not restored: the database has data of its own, which "
            "would be lost; remove spec.bootstrap.fromBackup, or create another database"
        )
        return Plan(rule=_RULE, blocked=(reason,), phase=PlanPhase.CREATING)
    reason = (
        f"{source.place} is not followed: the database has data of its own, which would be lost; "
        "remove spec.bootstrap.fromRedis"
    )
    phase = PlanPhase.HEALING if topology.observed.formed else PlanPhase.CREATING
    return Plan(rule=_RULE, blocked=(reason,), phase=phase)


def _wait(topology: OneGroup, reason: str, again: float = _RECORD_SECONDS) -> Plan:
    message = topology.copy.message if topology.copy is not None else ""
    texts = tuple(text for text in dict.fromkeys((reason, message)) if text)
    return Plan(rule=_RULE, blocked=texts, phase=PlanPhase.FOLLOWING, again_after=again)


def _following(topology: OneGroup) -> Plan | None:
    """The steps that make servers follow as they should, or None if they do."""
    source = topology.wanted.source
    assert source is not None
    able = [n for n in topology.seen if not n.loading and not n.pod.deleting]
    heads = [n for n in topology.heads if not n.pod.deleting]
    head = heads[0] if heads else _first(able)
    if head is None:
        return None
    if head.replication.follows != source.place:
        found = hindrance(topology.observed, source.place)
        if head.loading or (found is not None and found.final):
            return None
        step = FollowSource(
            node=at(head), host=source.host, port=source.port, follows=head.replication.follows
        )
        why = f"{head.pod.name} must follow {source.place}"
        return Plan(rule=_RULE, why=why, stages=((step,),), phase=PlanPhase.FOLLOWING)
    apart = [
        n
        for n in able
        if n.id != head.id
        and n.replication.follows != address(head)
        and (is_linked(head) or not n.keys)  # a copy is kept until another one is complete
    ]
    if not apart:
        return None
    names = ", ".join(node.pod.name for node in apart)
    steps = tuple(
        Follow(
            node=at(node), primary=at(head), follows=node.replication.follows, source=source.place
        )
        for node in apart
    )
    why = f"{names} must follow {head.pod.name}, which follows {source.place}"
    return Plan(rule=_RULE, why=why, stages=(steps,), phase=PlanPhase.FOLLOWING)


def _first(able: list[Seen]) -> Seen | None:
    """The server that must follow the source: the one with most of its data, then the first."""
    key = lambda n: (bool(n.keys), n.replication.offset, -n.pod.ordinal)  # noqa: E731
    return max(able, key=key, default=None)


def _running(topology: OneGroup) -> Plan | None:
    """Changes that need no restart; those that need one wait for the promotion."""
    for rule in (configure, grow):
        advice = rule(topology)
        if advice is not None and advice.stages:
            return advice
    return None


# Promotion


def _promotion(topology: OneGroup) -> Plan | None:
    """Promote the server that follows the source, once it has all data of the source.

    If that cannot be known, a person decides; then a primary is chosen by the data of the servers.
    """
    place = topology.source
    head = next((n for n in topology.heads if is_linked(n) and not n.pod.deleting), None)
    reason = _unproven(topology, head)
    if reason is not None and topology.wanted.source_given_up:
        return None
    if reason is not None or head is None:
        message = (
            f"{reason}. Set spec.bootstrap again to continue following it; or continue with the "
            "present data: kubectl annotate redis "
            f"{topology.wanted.name} --overwrite {ACCEPT_LOSS}=source"
        )
        return Plan(
            rule=_RULE,
            blocked=(message,),
            phase=PlanPhase.FOLLOWING,
            again_after=_SOON_SECONDS,
        )
    link, source = head.replication, topology.wanted.source
    step = Promote(
        node=at(head),
        follows=link.follows,
        fence=Fence.NEVER_LED,
        replication_id=link.id,
        min_offset=link.offset,
        source=place,
        whole=source is not None and bool(source.backup),
    )
    others = [n for n in topology.seen if n.id != head.id and not n.loading]
    after = topology.after_promotion(head, others)
    return Plan(
        rule=_RULE,
        why=f"{head.pod.name} has all of backup {source.backup} and becomes the primary"
        if source is not None
        else f"spec.bootstrap.fromRedis was removed; {head.pod.name} has the data of {place} and "
        "becomes the primary",
        stages=((step,), after) if after else ((step,),),
        phase=PlanPhase.FOLLOWING,
    )


def _unproven(topology: OneGroup, head: Seen | None) -> str | None:
    """Why it is not known that all data has arrived, or None."""
    place, source = topology.source, topology.observed.source
    begun = f"no primary is chosen yet, because {place} may have writes that did not arrive:"
    if head is None:
        found = hindrance(topology.observed, place)
        return f"{begun} {_why(found) or 'no server is in sync with it'}"
    wanted = topology.wanted.source
    if wanted is not None and wanted.backup and head.refused_commands:
        return (
            f"{head.pod.name} refused {head.refused_commands} commands of backup {wanted.backup}, "
            "so it does not have all of it, and no primary is chosen; its log names them"
        )
    if source is None or isinstance(source, SourceSilent):
        error = source.error if source is not None else "it was not asked"
        return f"{begun} it does not report its offset: {error}"
    if not source.is_primary:
        return f"{begun} {_why(hindrance(topology.observed, place))}"
    lag = behind(head, source)
    if lag is None:
        return f"{begun} {head.pod.name} has another history than it"
    if lag > _LAG_BYTES:
        return f"{begun} {head.pod.name} is {lag} bytes behind it"
    return None


def _why(found: Hindrance | None) -> str:
    return found.message if found is not None else ""


# What no plan may do


def breaches(topology: OneGroup, step: FollowSource | Promote) -> list[str]:
    """Why a server may not drop its data to follow a source, or stop following it. I1"""
    if isinstance(step, Promote):
        unasked = topology.is_copy and not step.source and not topology.wanted.source_given_up
        return [f"I1: {step.node.pod} has only what arrived of {topology.source}"] * unasked
    node = topology.by_id.get(step.node.id)
    if node is None:
        return [f"I2: {step.node.pod} was not observed"]
    if node.is_primary:
        return [f"I1: {node.pod.name} accepts writes, which would be lost"]
    if topology.observed.formed:
        return ["I1: the database has data of its own"]
    if not topology.observed.copied:
        return [f"I1: it is not known that what {node.pod.name} holds is a copy"]
    if topology.wanted.source is None:
        return ["I1: the spec names no server to follow"]
    return []
