"""Hash slots: the slot of a key, sets of slots, and how many each owner should have.

Pure. A `SlotSet` is one integer with a bit per slot, so that union, difference and comparison of
16384 slots cost a few machine words; planning does thousands of them per observation.
"""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

__all__ = [
    "ALL_SLOTS",
    "NO_SLOTS",
    "SLOTS",
    "SlotMove",
    "SlotSet",
    "SlotShare",
    "even_shares",
    "fewest_moves",
    "key_slot",
    "slot_targets",
]

SLOTS: Final = 16384
_EVERY_BIT: Final = (1 << SLOTS) - 1


def _check(slot: int) -> None:
    if not 0 <= slot < SLOTS:
        raise ValueError(f"slot {slot} does not exist; slots are 0 to {SLOTS - 1}")


class SlotSet:
    """An immutable set of slots, written and read as `0-5460,5462`."""

    __slots__ = ("_bits",)
    _bits: int

    def __init__(self, slots: Iterable[int] = ()) -> None:
        if isinstance(slots, SlotSet):
            object.__setattr__(self, "_bits", slots.bits)
            return
        found = bytearray(SLOTS // 8)
        for slot in slots:
            if not 0 <= slot < SLOTS:
                _check(slot)
            found[slot >> 3] |= 1 << (slot & 7)
        object.__setattr__(self, "_bits", int.from_bytes(found, "little"))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a SlotSet does not change; make another one (tried to set {name})")

    @classmethod
    def from_bits(cls, bits: int) -> SlotSet:
        """Return the set whose members are the one-bits; the set operations below are fast by
        it."""
        if bits < 0 or bits > _EVERY_BIT:
            raise ValueError(f"slots are 0 to {SLOTS - 1}; these bits name others")
        made = cls.__new__(cls)
        object.__setattr__(made, "_bits", bits)
        return made

    @classmethod
    def span(cls, first: int, last: int) -> SlotSet:
        """The slots from `first` to `last`, both included."""
        _check(first)
        _check(last)
        if last < first:
            raise ValueError(f"slot range {first}-{last} ends before it starts")
        return cls.from_bits((1 << (last + 1)) - (1 << first))

    @classmethod
    def parse(cls, text: str) -> SlotSet:
        """Parse `0-5460,5462`; blanks between are allowed, and an empty text is the empty set."""
        bits = 0
        for part in text.replace(",", " ").split():
            first, dash, last = part.partition("-")
            try:
                bits |= cls.span(int(first), int(last if dash else first)).bits
            except ValueError as error:
                raise ValueError(f"{part!r} is not a slot range like 0-5460: {error}") from error
        return cls.from_bits(bits)

    @property
    def bits(self) -> int:
        """One bit per slot, lowest slot first."""
        return self._bits

    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The set as (first, last) pairs, ascending and as few as possible."""
        found: list[tuple[int, int]] = []
        bits, base = self._bits, 0
        while bits:
            skip = (bits & -bits).bit_length() - 1
            bits >>= skip
            base += skip
            run = (~bits & (bits + 1)).bit_length() - 1
            found.append((base, base + run - 1))
            bits >>= run
            base += run
        return tuple(found)

    def lowest(self, count: int) -> SlotSet:
        """Its `count` lowest slots, or all when it has fewer."""
        taken, left = 0, count
        for first, last in self.ranges():
            if left <= 0:
                break
            end = min(last, first + left - 1)
            taken |= SlotSet.span(first, end).bits
            left -= end - first + 1
        return SlotSet.from_bits(taken)

    def highest(self, count: int) -> SlotSet:
        """Its `count` highest slots, or all when it has fewer."""
        taken, left = 0, count
        for first, last in reversed(self.ranges()):
            if left <= 0:
                break
            start = max(first, last - left + 1)
            taken |= SlotSet.span(start, last).bits
            left -= last - start + 1
        return SlotSet.from_bits(taken)

    def __contains__(self, slot: object) -> bool:
        return isinstance(slot, int) and 0 <= slot < SLOTS and bool(self._bits >> slot & 1)

    def __iter__(self) -> Iterator[int]:
        for first, last in self.ranges():
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return self._bits.bit_count()

    def __bool__(self) -> bool:
        return self._bits != 0

    def __or__(self, other: SlotSet) -> SlotSet:
        return SlotSet.from_bits(self._bits | other._bits)

    def __and__(self, other: SlotSet) -> SlotSet:
        return SlotSet.from_bits(self._bits & other._bits)

    def __sub__(self, other: SlotSet) -> SlotSet:
        return SlotSet.from_bits(self._bits & ~other._bits)

    def __xor__(self, other: SlotSet) -> SlotSet:
        return SlotSet.from_bits(self._bits ^ other._bits)

    def __le__(self, other: SlotSet) -> bool:
        return not self._bits & ~other._bits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SlotSet) and self._bits == other._bits

    def __hash__(self) -> int:
        return hash(self._bits)

    def __str__(self) -> str:
        return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in self.ranges())

    def __repr__(self) -> str:
        return f"SlotSet.parse({str(self)!r})"


NO_SLOTS: Final = SlotSet()
ALL_SLOTS: Final = SlotSet.span(0, SLOTS - 1)


class SlotMove(Struct, frozen=True):
    """Slots that move from one owner to another; the caller decides what an owner is."""

    source: str
    target: str
    slots: SlotSet


def key_slot(key: str | bytes) -> int:
    """Return the slot of a key: CRC16 of it, or of the hash tag between its first `{` and the next
    `}`."""
    raw = key.encode() if isinstance(key, str) else key
    start = raw.find(b"{")
    if start >= 0:
        end = raw.find(b"}", start + 1)
        if end > start + 1:
            raw = raw[start + 1 : end]
    return crc_hqx(raw, 0) % SLOTS


def even_shares(shards: int) -> tuple[SlotSet, ...]:
    """All slots in `shards` contiguous parts whose sizes differ by one at most."""
    if not 1 <= shards <= SLOTS:
        raise ValueError(f"{shards} shards cannot share {SLOTS} slots; ask for 1 to {SLOTS}")
    edges = [shard * SLOTS // shards for shard in range(shards + 1)]
    return tuple(SlotSet.span(a, b - 1) for a, b in pairwise(edges))


def slot_targets(
    owned: Mapping[str, int], weights: Mapping[str, float] | None = None
) -> dict[str, int]:
    """How many slots each owner should have, by largest remainder, nearest to what it has now.

    Owners with weight 0 get none: that is how a leaving shard is drained. A tie between
    remainders goes to the owner that has more already, so that the fewest slots move.
    """
    weight = {name: (1.0 if weights is None else weights.get(name, 1.0)) for name in owned}
    total = sum(weight.values())
    if total <= 0:
        raise ValueError("no owner may keep a slot; give one of them a weight above 0")
    quota = {name: SLOTS * weight[name] / total for name in owned}
    floor = {name: int(quota[name]) for name in owned}
    spare = SLOTS - sum(floor.values())
    order = sorted(
        (name for name in owned if weight[name] > 0),
        key=lambda name: (-round(quota[name] - floor[name], 9), -owned[name]),
    )
    for name in order[:spare]:
        floor[name] += 1
    return floor


class SlotShare(Struct, frozen=True):
    """A part of one owner's slots that another gets, before the slots are chosen."""

    source: str
    target: str
    owned: SlotSet  # by the source, now
    gained: SlotSet  # by the target, now
    usual: SlotSet  # the part when no weights are known
    left_to_give: int  # by the source, this part among them
    left_to_get: int  # by the target


def fewest_moves(
    owned: Mapping[str, SlotSet],
    targets: Mapping[str, int],
    choose: Callable[[SlotShare], SlotSet] = lambda cut: cut.usual,
) -> tuple[SlotMove, ...]:
    """Return the moves that give every owner its target: few pairs, whole ranges, from the edges.

    No owner both gives and takes, so moves never run in both directions between two servers.
    `choose` may take other slots than the usual ones of a cut, but the same number.
    """
    surplus = {
        n: len(s) - targets.get(n, 0) for n, s in owned.items() if len(s) > targets.get(n, 0)
    }
    deficit = {
        n: t - len(owned.get(n, NO_SLOTS))
        for n, t in targets.items()
        if t > len(owned.get(n, NO_SLOTS))
    }
    left = dict(owned)
    gained: dict[str, SlotSet] = {name: owned.get(name, NO_SLOTS) for name in deficit}
    moves: list[SlotMove] = []
    while surplus and deficit:
        source = max(surplus, key=lambda name: surplus[name])
        target = _best_receiver(surplus[source], deficit)
        count = min(surplus[source], deficit[target])
        cut = SlotShare(
            source=source,
            target=target,
            owned=left[source],
            gained=gained[target],
            usual=_cut(left[source], count, near=gained[target]),
            left_to_give=surplus[source],
            left_to_get=deficit[target],
        )
        slots = choose(cut)
        moves.append(SlotMove(source=source, target=target, slots=slots))
        left[source] -= slots
        gained[target] |= slots
        _spend(surplus, source, count)
        _spend(deficit, target, count)
    return tuple(moves)


def _best_receiver(count: int, deficit: Mapping[str, int]) -> str:
    """Return the receiver that a donor's whole surplus fits exactly, else the one that lacks
    most."""
    exact = [name for name, wants in deficit.items() if wants == count]
    return exact[0] if exact else max(deficit, key=lambda name: deficit[name])


def _spend(account: dict[str, int], name: str, count: int) -> None:
    account[name] -= count
    if not account[name]:
        del account[name]


def _cut(owned: SlotSet, count: int, *, near: SlotSet) -> SlotSet:
    """Take `count` slots: beside the receiver's own, then whole small ranges, then an edge."""
    taken = NO_SLOTS
    while len(taken) < count:
        left = owned - taken
        taken |= _next_piece(left.ranges(), count - len(taken), near | taken)
    return taken


def _next_piece(ranges: Sequence[tuple[int, int]], count: int, near: SlotSet) -> SlotSet:
    for first, last in ranges:
        if first - 1 in near:
            return SlotSet.span(first, min(last, first + count - 1))
        if last + 1 in near:
            return SlotSet.span(max(first, last - count + 1), last)
    first, last = min(ranges, key=lambda edge: edge[1] - edge[0])
    return SlotSet.span(max(first, last - count + 1), last)
