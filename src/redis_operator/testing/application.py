"""An application under load: it writes all the time and remembers every acknowledged write.

At the end it reads them back; one that is missing was promised and lost. It follows redirections,
tries again for ever, and measures the longest time a single write had to wait: what a user of the
database would notice of a failure or a change.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import hiredis
from msgspec import Struct

from redis_operator.redis.resp import encode, encode_all
from redis_operator.redis.slots import key_slot

__all__ = ["Application", "Report", "Seeds"]

_ANSWER_SECONDS = 1.0
_RETRY_SECONDS = 0.002
_TAGS_PER_WORKER = 64
_SLOTS = 16384
_BATCH = 500
_READ_SECONDS = 10.0
_READ_AGAIN_SECONDS = 0.2


class Seeds(Struct, frozen=True):
    """Where the database is, and who the application is to it."""

    addresses: tuple[tuple[str, int], ...]
    username: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"Seeds({self.addresses}, {self.username!r}, ***)"


class Report(Struct, frozen=True):
    """What the application saw."""

    sent: int
    acknowledged: int
    lost: tuple[str, ...]
    longest_wait_seconds: float
    retries: int


class _Failed(Exception):  # noqa: N818 - one try of a write came to nothing
    """A try failed; the next may go elsewhere."""


class _Peer:
    """One connection to one server, one command at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._parser = hiredis.Reader()

    @classmethod
    async def open(cls, address: tuple[str, int], seeds: Seeds) -> _Peer:
        async with asyncio.timeout(_ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(*address)
        peer = cls(reader, writer)
        try:
            if seeds.password:
                words = ["AUTH", *([seeds.username] if seeds.username else []), seeds.password]
                answer = await peer.ask(*words)
                if isinstance(answer, Exception):
                    raise _Failed(str(answer))  # noqa: TRY301 - closed like every other failure
        except BaseException:
            peer.close()
            raise
        return peer

    async def ask(self, *words: str) -> object:
        self._writer.write(encode(words))
        async with asyncio.timeout(_ANSWER_SECONDS):
            return await self._answer()

    async def ask_each(self, command: str, keys: Sequence[str]) -> list[object]:
        """Ask the same of many keys in one write."""
        self._writer.write(encode_all((command, key) for key in keys))
        async with asyncio.timeout(_ANSWER_SECONDS + len(keys) / 1000):
            return [await self._answer() for _ in keys]

    async def _answer(self) -> object:
        while True:
            answer = self._parser.gets()
            if answer is not False:
                return answer
            piece = await self._reader.read(65536)
            if not piece:
                raise ConnectionResetError("the server ended the connection")
            self._parser.feed(piece)

    def close(self) -> None:
        self._writer.close()


class _Worker:
    """Writes keys of one part of the slots, one after another."""

    def __init__(self, application: Application, number: int, tags: Sequence[str]) -> None:
        self._application = application
        self._number = number
        self._tags = tags
        self._peers: dict[tuple[str, int], _Peer] = {}
        self._random = random.Random(number)  # the order of tags is the same in every run
        self._written = 0

    async def run(self) -> None:
        application = self._application
        loop = asyncio.get_running_loop()
        next_at = loop.time()
        while not application.stopping:
            tag = self._random.choice(self._tags)
            key = f"{{{tag}}}:{self._number}:{self._written}"
            self._written += 1
            application.sent += 1
            begun = loop.time()
            done = await self._write(key, tag)
            if done:
                application.note(key, loop.time() - begun)
            next_at = max(next_at + application.interval, loop.time() - 1.0)
            await asyncio.sleep(max(0.0, next_at - loop.time()))
        self.close()

    async def _write(self, key: str, tag: str) -> bool:
        """Write until it is acknowledged; false when told to stop before."""
        slot = key_slot(tag)
        address = self._application.owner_of(slot)
        while True:
            try:
                return await self._try(address, key, slot)
            except _Moved as moved:
                address = moved.address
                self._application.learn(slot, address)
                self._application.refresh(address)
            except (OSError, TimeoutError, _Failed):
                self._drop(address)
                self._application.avoid(address)
                if self._application.stopping:
                    return False
                self._application.retries += 1
                await asyncio.sleep(_RETRY_SECONDS)
                address = self._application.any_address()

    async def _try(self, address: tuple[str, int], key: str, slot: int) -> bool:
        peer = self._peers.get(address)
        if peer is None:
            peer = self._peers[address] = await _Peer.open(address, self._application.seeds)
        answer = await peer.ask("SET", key, key)
        if answer == b"OK":
            self._application.learn(slot, address)
            return True
        text = str(answer)
        word, _, rest = text.partition(" ")
        if word in ("MOVED", "ASK"):
            host, _, port = rest.split()[1].rpartition(":")
            target = (host or address[0], int(port))
            if word == "MOVED":
                raise _Moved(target)
            return await self._ask_there(target, key)
        raise _Failed(text)

    async def _ask_there(self, address: tuple[str, int], key: str) -> bool:
        peer = self._peers.get(address)
        if peer is None:
            peer = self._peers[address] = await _Peer.open(address, self._application.seeds)
        await peer.ask("ASKING")
        answer = await peer.ask("SET", key, key)
        if answer == b"OK":
            return True
        raise _Failed(str(answer))

    def _drop(self, address: tuple[str, int]) -> None:
        peer = self._peers.pop(address, None)
        if peer is not None:
            peer.close()

    def close(self) -> None:
        for address in list(self._peers):
            self._drop(address)


class _Moved(Exception):  # noqa: N818 - a redirection is no failure
    """The slot is elsewhere."""

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(f"moved to {address}")
        self.address = address


class Application:
    """Writes at a steady rate from several workers, each with slots of its own.

    Since no two workers share slots, a shard that stands still holds up only its own writers.
    """

    def __init__(
        self, seeds: Seeds, *, writes_per_second: float = 500.0, workers: int = 12
    ) -> None:
        self.seeds = seeds
        self.interval = workers / writes_per_second
        self.sent = 0
        self.retries = 0
        self.stopping = False
        self.acknowledged: list[str] = []
        self.longest_wait = 0.0
        self._owners: dict[int, tuple[str, int]] = {}
        self._addresses: list[tuple[str, int]] = list(seeds.addresses)
        self._turn = 0
        self._workers = [_Worker(self, n, _tags(n, workers)) for n in range(workers)]
        self._tasks: list[asyncio.Task[None]] = []
        self._refreshing: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to write."""
        self._tasks = [asyncio.create_task(worker.run()) for worker in self._workers]

    async def stop(self) -> None:
        """Stop writing; a write that waits is given up and counts as not acknowledged."""
        self.stopping = True
        done, late = await asyncio.wait(self._tasks, timeout=10)
        for task in late:
            task.cancel()
        if self._refreshing is not None:
            self._refreshing.cancel()
            late.add(self._refreshing)
        await asyncio.gather(*late, return_exceptions=True)
        for task in done:
            task.result()

    async def verify(self) -> Report:
        """Read every acknowledged write back, from whoever has it by now.

        Who does not answer, or sends one elsewhere, may be about to be replaced: all is asked again
        for a while. What cannot be read then is not there for whoever needs it.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + _READ_SECONDS
        lost, unread = await self._read(self.acknowledged)
        while unread and loop.time() < end:
            await asyncio.sleep(_READ_AGAIN_SECONDS)
            missing, unread = await self._read(unread)
            lost += missing
        lost += unread
        return Report(
            self.sent, len(self.acknowledged), tuple(lost), self.longest_wait, self.retries
        )

    async def _read(self, keys: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return which of the keys their owners do not have, and which nobody told of."""
        await self._learn_owners()
        lost: list[str] = []
        unread: list[str] = []
        by_owner: dict[tuple[str, int], list[str]] = {}
        for key in keys:
            by_owner.setdefault(self.owner_of(key_slot(key)), []).append(key)
        for address, asked in by_owner.items():
            try:
                for key, answer in await self._ask(address, asked):
                    if isinstance(answer, Exception):
                        unread.append(key)
                    elif answer != key.encode():
                        lost.append(key)
            except (OSError, TimeoutError, _Failed):
                unread += asked
        return lost, unread

    async def _ask(self, address: tuple[str, int], keys: Sequence[str]) -> list[tuple[str, object]]:
        """Return what a server says each of the keys is."""
        found: list[tuple[str, object]] = []
        peer = await _Peer.open(address, self.seeds)
        try:
            for start in range(0, len(keys), _BATCH):
                batch = keys[start : start + _BATCH]
                found += zip(batch, await peer.ask_each("GET", batch), strict=True)
        finally:
            peer.close()
        return found

    async def _learn_owners(self) -> None:
        for address in (*self.seeds.addresses, *self._addresses):
            if await self._learn_from(address):
                return

    async def _learn_from(self, address: tuple[str, int]) -> bool:
        """Learn all owners of slots from one server, and who else there is."""
        try:
            peer = await _Peer.open(address, self.seeds)
            try:
                slots = await peer.ask("CLUSTER", "SLOTS")
            finally:
                peer.close()
        except (OSError, TimeoutError, _Failed):
            return False
        if not isinstance(slots, list) or not slots:
            return False
        for first, last, *servers in slots:
            places = [(s[0].decode() or address[0], int(s[1])) for s in servers]
            self._owners.update(dict.fromkeys(range(first, last + 1), places[0]))
            self._addresses += [place for place in places if place not in self._addresses]
        return True

    # What the workers share

    def note(self, key: str, waited: float) -> None:
        """Remember an acknowledged write."""
        self.acknowledged.append(key)
        self.longest_wait = max(self.longest_wait, waited)

    def owner_of(self, slot: int) -> tuple[str, int]:
        """Return where a slot was last seen."""
        return self._owners.get(slot) or self.any_address()

    def any_address(self) -> tuple[str, int]:
        """Return one of the known servers, the next each time."""
        self._turn += 1
        return self._addresses[self._turn % len(self._addresses)]

    def avoid(self, address: tuple[str, int]) -> None:
        """Ask others first: an address that did not answer may belong to nobody any more."""
        if address in self._addresses and len(self._addresses) > 1:
            self._addresses.remove(address)

    def refresh(self, address: tuple[str, int]) -> None:
        """Learn the whole map anew, as clients do when a server sends them elsewhere."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh(address))

    async def _refresh(self, address: tuple[str, int]) -> None:
        await self._learn_from(address)

    def learn(self, slot: int, address: tuple[str, int]) -> None:
        """Remember where a slot is."""
        self._owners[slot] = address
        if address not in self._addresses:
            self._addresses.append(address)


def _tags(number: int, workers: int) -> list[str]:
    """Return hash tags whose slots lie in one worker's part."""
    part = range(number * _SLOTS // workers, (number + 1) * _SLOTS // workers)
    found: list[str] = []
    candidate = 0
    while len(found) < _TAGS_PER_WORKER:
        tag = f"t{number}.{candidate}"
        if key_slot(tag) in part:
            found.append(tag)
        candidate += 1
    return found
