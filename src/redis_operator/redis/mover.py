"""Migrate slots with their keys from one primary to another while clients are served.

Guarantees
    - Every step may be repeated, and any process can continue the move at any point (I13): at worst
      slots are left open, or a job that the engine finishes or rolls back.
    - A slot changes its owner only when the source holds no key of it and the target's replicas
      have all of them (I4): a target that dies right after loses nothing.
    - No command blocks a server longer than the pace allows, except for a single big key.
    - Slots that a third server imports are not moved. From Valkey 8 on, a server that imports a
    slot
      takes it as soon as the source claims it no more, with a claim newer than that of the target,
      which would then delete the keys it has just got.

Assumptions: both are primaries of one cluster; no other process moves slots in the other direction
between them at the same time (mutual MIGRATE blocks both servers); the caller has checked their
ids.
Errors: `MoveError` names the obstacle; any other `RedisError` means that a server did not respond.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final, NamedTuple

from msgspec import Struct

from . import commands
from .atomic import import_with_redis, migrate_with_valkey
from .carrying import Carrier, PlainCarrier, ScriptCarrier, load_script
from .command import Command, Link
from .errors import RedisError, ReplyError
from .moving import Method, Move, MoveError, MoveProgress, Pace, choose_method, keys_of_a_job
from .replies import ClusterNode
from .slots import NO_SLOTS, SlotSet
from .tally import count_keys
from .versions import Ability, can

__all__ = [
    "ExtraLinks",
    "Method",
    "Move",
    "MoveError",
    "MoveProgress",
    "Pace",
    "choose_method",
    "known_of",
    "move_slots",
    "owned_by",
    "preflight",
    "run_on_all",
]

_TIMEOUT: Final = 5.0
_SETSLOT_TIMEOUT: Final = 30.0
_SYNC_SECONDS: Final = 30.0
_AGREE_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.01
_HEARD_SECONDS: Final = 10.0
_OnProgress = Callable[[MoveProgress], None]


async def preflight(target: Link, move: Move) -> str | None:
    """Return why the target would refuse the keys, or None. Checked before any slot is opened."""
    if not move.username or not can(move.target.version, Ability.ACL_DRYRUN):
        return None
    payload = ("RESTORE-ASKING", "key", 0, "payload", "REPLACE")
    try:
        answer = await target.run(commands.acl_dryrun(move.username, payload), timeout=_TIMEOUT)
    except ReplyError as error:
        return f"user {move.username} of the target cannot be checked: {error.message}"
    return None if answer == "OK" else f"user {move.username} may not restore keys: {answer}"


async def move_slots(
    source: Link,
    target: Link,
    move: Move,
    *,
    others: Sequence[Link] = (),
    bystanders: Sequence[Link] = (),
    replicas: Sequence[Link] = (),
    extra_links: ExtraLinks | None = None,
    pace: Pace | None = None,
    method: Method | None = None,
    on_progress: _OnProgress | None = None,
) -> MoveProgress:
    """Move slots, or finish a move that was begun; return what was done.

    `others` are further primaries, which are notified at once so that no client is redirected to
    the wrong server; `bystanders` are all servers of other shards: none of them may import the
    slots. `replicas` are the target's: no slot changes its owner before they have its keys.
    `extra_links` go to both ends: Valkey 8 lets SETSLOT wait for replicas, one at a time on each
    link.
    """
    tell, speed = on_progress or _tell_nobody, pace or Pace()
    chosen = method or choose_method(move.source.version, move.target.version)
    owned, taken = await _owned(source, target, move)
    await asyncio.gather(*(_imports_none(link, move.slots) for link in bystanders))
    progress = MoveProgress(slots_total=len(move.slots), slots_moved=taken)
    if chosen in (Method.VALKEY_ATOMIC, Method.REDIS_ATOMIC):
        left = _Left(owned, chosen, speed, tell)
        await _move_atomically(source, target, move, left)
        await _wait_agreed(target, move)
        progress = MoveProgress(slots_total=len(move.slots), slots_moved=move.slots)
        tell(progress)
        return progress
    reason = await preflight(target, move)
    if reason is not None:
        raise MoveError(reason)
    hands = _Hands(source, target, move, others=tuple(others), replicas=tuple(replicas), pace=speed)
    if extra_links is not None:
        hands.extra_links = extra_links
    await hands.close(taken, are_imported=False)
    return await hands.move(owned, progress, tell)


def _tell_nobody(_: MoveProgress) -> None:
    """Ignore the progress."""


async def _owned(source: Link, target: Link, move: Move) -> tuple[SlotSet, SlotSet]:
    """Return which of the slots the source still owns, and which the target owns already."""
    views = await asyncio.gather(
        source.run(commands.cluster_nodes(), timeout=_TIMEOUT),
        target.run(commands.cluster_nodes(), timeout=_TIMEOUT),
    )
    mine = [next((node for node in view if node.is_myself), None) for view in views]
    for node, side in zip(mine, (move.source, move.target), strict=True):
        if node is None or node.id != side.id or not node.is_primary:
            found = "no server" if node is None else f"node {node.id[:8]}"
            raise MoveError(f"{side.host} is {found} now, not the primary {side.id[:8]}")
    at_source, at_target = (node.slots & move.slots for node in mine if node is not None)
    unknown = move.slots - at_source - at_target
    if unknown:
        raise MoveError(f"slots {unknown} belong to neither of the two servers")
    unheard = at_source - at_target - _slots_of(views[1], move.source.id)
    if unheard:
        raise MoveError(f"{move.target.host} has not heard yet whose slots {unheard} are")
    return at_source - at_target, at_target


class _Left(NamedTuple):
    """The remaining slots of an atomic move, and the way to move them."""

    slots: SlotSet
    method: Method
    pace: Pace
    tell: _OnProgress


async def _move_atomically(source: Link, target: Link, move: Move, left: _Left) -> None:
    slots = left.slots
    while slots:
        before, refused = slots, None
        try:
            if left.method is Method.VALKEY_ATOMIC:
                part = await _portion(source, slots, left.pace)
                moved = await migrate_with_valkey(source, move, part)
            else:
                part, moved = slots, await import_with_redis(target, slots)
        except ReplyError as error:
            moved, refused = False, error
        if moved:
            slots -= part
            left.tell(MoveProgress(slots_total=len(move.slots), slots_moved=move.slots - slots))
            continue
        # A job of an earlier attempt moved some of them meanwhile, or all.
        slots, _ = await _owned(source, target, move)
        if refused is not None and slots == before:
            raise refused


async def _portion(source: Link, slots: SlotSet, pace: Pace) -> SlotSet:
    """Return the lowest slots that together hold about as many keys as one job may.

    When a job has ended, Valkey deletes its keys from the source at once, and no client is served
    meanwhile. All jobs have about the same size: a small one at the end would start as late as a
    large one, since the engine starts a job ten times a second.
    """
    info, counted = await asyncio.gather(
        source.run(commands.info(), timeout=_TIMEOUT),
        count_keys(source, slots, timeout=_TIMEOUT),
    )
    most = keys_of_a_job(
        pace,
        average_bytes=info.memory.used_bytes / max(1, info.keys),
        fork_microseconds=info.stats.latest_fork_microseconds,
    )
    total = sum(keys for _, keys in counted)
    share = total / max(1, -(-total // most))
    held = 0
    for slot, keys in counted:
        held += keys
        below = slots & SlotSet.span(0, slot - 1) if slot else NO_SLOTS
        if held > share + keys / 2 and below:
            return below
    return slots


async def _wait_agreed(target: Link, move: Move) -> None:
    """Wait until the target reports that it owns the slots."""
    try:
        async with asyncio.timeout(_AGREE_SECONDS):
            while True:
                nodes = await target.run(commands.cluster_nodes(), timeout=_TIMEOUT)
                if any(node.is_myself and move.slots <= node.slots for node in nodes):
                    return
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError as error:
        raise MoveError(f"the target does not own {move.slots} after they were moved") from error


class ExtraLinks(Struct, frozen=True):
    """More links to the two servers of a move."""

    source: tuple[Link, ...] = ()
    target: tuple[Link, ...] = ()


class _Hands:
    """The manual way: open slots, move keys, close slots, group by group."""

    def __init__(
        self,
        source: Link,
        target: Link,
        move: Move,
        *,
        others: tuple[Link, ...],
        replicas: tuple[Link, ...],
        pace: Pace,
    ) -> None:
        self._source = source
        self._target = target
        self._move = move
        self._others = others
        self._replicas = replicas
        self._pace = pace
        self.extra_links = ExtraLinks()

    async def _at_source(self, asked: Sequence[Command[None]]) -> None:
        await run_on_all((self._source, *self.extra_links.source), asked)

    async def _at_target(self, asked: Sequence[Command[None]]) -> None:
        await run_on_all((self._target, *self.extra_links.target), asked)

    async def move(self, slots: SlotSet, progress: MoveProgress, tell: _OnProgress) -> MoveProgress:
        """Move groups of slots one after another."""
        carrier = await self._carrier()
        keys, size = progress.keys_moved, progress.bytes_moved

        def carried(_: int, more_keys: int, more_bytes: int) -> None:
            nonlocal keys, size
            keys, size = keys + more_keys, size + more_bytes

        moved, left = progress.slots_moved, slots
        newcomer = not await owned_by(self._target)
        while left:
            # A server without slots is not failed over: slots that it was given would be lost with
            # it.
            group = left.lowest(1 if newcomer else self._pace.slots)
            newcomer = False
            await self._open(group)
            await self._empty(group, carrier, carried)
            await self._wait_replicas()
            await self.close(group)
            moved, left = moved | group, left - group
            progress = MoveProgress(progress.slots_total, moved, keys, size)
            tell(progress)
        return progress

    async def _carrier(self) -> Carrier:
        try:
            digest = await load_script(self._source, self._move)
        except ReplyError:
            return PlainCarrier(self._source, self._move, self._pace)
        return ScriptCarrier(self._source, self._move, self._pace, digest)

    async def _open(self, slots: SlotSet) -> None:
        """Open the target first: a client that the source redirects must be accepted there. I4"""
        source, target = self._move.source.id, self._move.target.id
        await self._at_target([commands.set_slot_importing(slot, source) for slot in slots])
        await self._at_source([commands.set_slot_migrating(slot, target) for slot in slots])

    async def _empty(
        self, slots: SlotSet, carrier: Carrier, carried: Callable[[int, int, int], None]
    ) -> None:
        """Move keys until the source itself reports that it holds no key of these slots. I4"""
        for _ in range(3):
            filled = await count_keys(self._source, slots, timeout=_TIMEOUT)
            if not filled:
                return
            await _carry(carrier, [slot for slot, _ in filled], carried)
        raise MoveError(f"slots {slots} do not become empty on the source")

    async def _wait_replicas(self) -> None:
        """Wait until the target's replicas have what it has now. I4

        WAIT does not help: it is about the writes of its own connection, and the keys came by
        another one. Asking replicas is quick; without links to them, their acknowledgement once a
        second counts.
        """
        found = await self._target.run(commands.info_replication(), timeout=_TIMEOUT)
        wanted = found.offset
        try:
            async with asyncio.timeout(_SYNC_SECONDS):
                if self._replicas:
                    await asyncio.gather(*(_wait_offset(link, wanted) for link in self._replicas))
                elif found.replicas:
                    await _wait_acknowledged(self._target, wanted)
        except TimeoutError as error:
            raise MoveError(
                f"a replica of the target has not reached offset {wanted} in {_SYNC_SECONDS:g} s"
            ) from error

    async def _wait_heard(self, slots: SlotSet) -> None:
        """Wait until the target's replicas know what it owns. I4

        A replica that is promoted before would not claim these slots. No other server is notified
        until then: as long as the source has not given them up, a target that dies loses nothing.
        """
        try:
            async with asyncio.timeout(_HEARD_SECONDS):
                for link in self._replicas:
                    while slots - await known_of(link, self._move.target.id):
                        await self._target.run(commands.ping(), timeout=_TIMEOUT)
                        await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError as error:
            raise MoveError(
                f"a replica of the target does not know of slots {slots} in {_HEARD_SECONDS:g} s"
            ) from error

    async def close(self, slots: SlotSet, *, are_imported: bool = True) -> None:
        """Give the slots their new owner: on the target first, then the source, then all others.
        I4"""
        if not slots:
            return
        owner = [commands.set_slot_node(slot, self._move.target.id) for slot in slots]
        replicated = can(self._move.target.version, Ability.REPLICATED_SETSLOT)
        if are_imported and not replicated:
            await self._claim_at_once(slots, owner)
        else:
            for start in range(0, len(owner), self._pace.claims):
                await self._at_target(owner[start : start + self._pace.claims])
        await self._wait_heard(slots)
        await self._at_source(owner)
        await asyncio.gather(*(_tell(link, owner) for link in self._others))

    async def _claim_at_once(self, slots: SlotSet, owner: Sequence[Command[None]]) -> None:
        """Let the target take slots that it imports, and announce them to all servers once. I4

        It announces each slot that it imports when it takes it, and every server needs up to a
        tenth of a millisecond for each announcement: for hundreds in a row clients of all servers
        would wait. A slot that is not importing is taken without an announcement; so in one
        transaction all but the last stop importing and are taken, and the last is taken as usual,
        which makes the claim newer than all others (a new epoch) and announces all. An engine whose
        SETSLOT waits for replicas cannot do that in a transaction.
        """
        *before, last = slots
        steps = [
            step
            for slot, claim in zip(before, owner, strict=False)
            for step in (commands.set_slot_stable(slot), claim)
        ]
        steps += [commands.set_slot_importing(last, self._move.source.id), owner[-1]]
        asked = commands.transaction(steps)
        begun, *answers, ended = await self._target.run_all(asked, timeout=_SETSLOT_TIMEOUT)
        if not isinstance(begun, ReplyError):  # else each step was executed separately
            answers.append(ended)
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer


async def _carry(
    carrier: Carrier, slots: Sequence[int], carried: Callable[[int, int, int], None]
) -> None:
    try:
        await carrier.carry(slots, carried)
    except ReplyError as error:
        raise MoveError(f"keys could not be carried: {error}") from error


async def _wait_offset(replica: Link, wanted: int) -> None:
    pause = _LOOK_SECONDS / 16
    while True:
        found = await replica.run(commands.info_replication(), timeout=_TIMEOUT)
        if found.offset >= wanted and found.link_up:
            return
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LOOK_SECONDS)


async def _wait_acknowledged(target: Link, wanted: int) -> None:
    while True:
        found = await target.run(commands.info_replication(), timeout=_TIMEOUT)
        if all(line.offset >= wanted for line in found.replicas if line.state == "online"):
            return
        await asyncio.sleep(_LOOK_SECONDS)


async def run_on_all(links: Sequence[Link], asked: Sequence[Command[None]]) -> None:
    """Run commands that must all succeed, spread over the links; raise the first error."""
    shares = (asked[number :: len(links)] for number in range(len(links)))
    answers = await asyncio.gather(
        *(
            link.run_all(share, timeout=_SETSLOT_TIMEOUT)
            for link, share in zip(links, shares, strict=True)
            if share
        )
    )
    for answer in chain.from_iterable(answers):
        if isinstance(answer, Exception):
            raise answer


async def _tell(link: Link, asked: Sequence[Command[None]]) -> None:
    """Notify a bystander; one that does not respond learns it by gossip."""
    try:
        await link.run_all(asked, timeout=_TIMEOUT)
    except RedisError:
        return


async def owned_by(link: Link) -> SlotSet:
    """Return the slots that a server reports as its own."""
    nodes = await link.run(commands.cluster_nodes(), timeout=_TIMEOUT)
    return next((node.slots for node in nodes if node.is_myself), NO_SLOTS)


async def _imports_none(link: Link, slots: SlotSet) -> None:
    """Refuse if a third server imports any of the slots. I4"""
    nodes = await link.run(commands.cluster_nodes(), timeout=_TIMEOUT)
    for node in nodes:
        wanted = slots & SlotSet(slot for slot, _ in node.importing)
        if node.is_myself and wanted:
            raise MoveError(
                f"{node.ip} imports slots {wanted}, and would take them from the target"
            )


async def known_of(link: Link, owner: str) -> SlotSet:
    """Return the slots that a server believes another one owns."""
    nodes = await link.run(commands.cluster_nodes(), timeout=_TIMEOUT)
    return _slots_of(nodes, owner)


def _slots_of(nodes: Sequence[ClusterNode], owner: str) -> SlotSet:
    return next((node.slots for node in nodes if node.id == owner), NO_SLOTS)
