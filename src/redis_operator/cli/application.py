"""An application under load: it writes all the time and remembers every acknowledged write.

Each worker writes growing numbers to its own keys, and every write returns the value that it
replaces. A value that is missing, or older than the last acknowledged one, is a loss: it is noticed
at the next write of that key, or when everything is read back at the end. The application follows
redirections, retries without limit, and measures the longest time that a single write waited,
including writes that still wait: what a user of the database would notice of a failure or a change.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from bisect import bisect_right
from collections.abc import Iterable, Sequence

import hiredis
from msgspec import Struct

from redis_operator.redis.resp import encode, encode_all
from redis_operator.redis.slots import key_slot

__all__ = ["Application", "ApplicationReport", "Seeds"]

_ANSWER_SECONDS = 1.0
_RETRY_SECONDS = 0.002
_TAGS_PER_WORKER = 64
_SLOTS = 16384
_BATCH = 500
_READ_SECONDS = 10.0
_READ_AGAIN_SECONDS = 0.2
_FINISH_SECONDS = 10.0


class Seeds(Struct, frozen=True):
    """The addresses of the database, and the login of the application."""

    addresses: tuple[tuple[str, int], ...]
    username: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"Seeds({self.addresses}, {self.username!r}, ***)"


class ApplicationReport(Struct, frozen=True):
    """What the application observed; a lost write is named `KEY=NUMBER`."""

    sent: int
    acknowledged: int
    lost: tuple[str, ...]
    longest_wait_seconds: float
    retries: int
    unfinished: int
    """Writes that were still waiting when the application stopped waiting for them."""


class _Failed(Exception):  # noqa: N818 - one attempt of a write failed
    """An attempt failed; the next may use another server."""


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
    """Writes growing numbers to keys of one part of the slots, one write after another."""

    def __init__(self, application: Application, number: int, keys: Sequence[str]) -> None:
        self._application = application
        self._keys = keys
        self._peers: dict[tuple[str, int], _Peer] = {}
        self._random = random.Random(number)  # the order of keys is the same in every run
        self._written = 0
        self.began: float | None = None
        """When the waiting write began."""

    async def run(self) -> None:
        application = self._application
        loop = asyncio.get_running_loop()
        next_at = loop.time()
        try:
            while not application.stopping:
                key = self._random.choice(self._keys)
                self._written += 1
                application.sent += 1
                self.began = loop.time()
                before = await self._write(key, self._written)
                application.note(key, self._written, before, loop.time() - self.began)
                self.began = None
                next_at = max(next_at + application.interval, loop.time() - 1.0)
                await asyncio.sleep(max(0.0, next_at - loop.time()))
        finally:
            self.close()

    async def _write(self, key: str, number: int) -> object:
        """Write until it is acknowledged; return the value that was there before."""
        slot = key_slot(key)
        address = self._application.owner_of(slot)
        while True:
            try:
                return await self._try(address, key, number, slot)
            except _Moved as moved:
                address = moved.address
                self._application.learn(slot, address)
                self._application.refresh(address)
            except (OSError, TimeoutError, _Failed):
                self._drop(address)
                self._application.avoid(address)
                self._application.retries += 1
                await asyncio.sleep(_RETRY_SECONDS)
                address = self._application.any_address()

    async def _try(self, address: tuple[str, int], key: str, number: int, slot: int) -> object:
        answer = await self._ask(address, "SET", key, str(number), "GET")
        if not isinstance(answer, Exception):
            self._application.learn(slot, address)
            return answer
        word, _, rest = str(answer).partition(" ")
        if word in ("MOVED", "ASK"):
            host, _, port = rest.split()[1].rpartition(":")
            target = (host or address[0], int(port))
            if word == "MOVED":
                raise _Moved(target)
            return await self._ask_there(target, key, number)
        raise _Failed(str(answer))

    async def _ask_there(self, address: tuple[str, int], key: str, number: int) -> object:
        await self._ask(address, "ASKING")
        answer = await self._ask(address, "SET", key, str(number), "GET")
        if isinstance(answer, Exception):
            raise _Failed(str(answer))
        return answer

    async def _ask(self, address: tuple[str, int], *words: str) -> object:
        """Ask a server; a connection that failed is dropped, whichever server redirected to it.

        A late reply would be read as the reply to the next command.
        """
        peer = await self._peer(address)
        try:
            return await peer.ask(*words)
        except BaseException:
            self._drop(address)
            raise

    async def _peer(self, address: tuple[str, int]) -> _Peer:
        peer = self._peers.get(address)
        if peer is None:
            peer = self._peers[address] = await _Peer.open(address, self._application.seeds)
        return peer

    def _drop(self, address: tuple[str, int]) -> None:
        peer = self._peers.pop(address, None)
        if peer is not None:
            peer.close()

    def close(self) -> None:
        for address in list(self._peers):
            self._drop(address)


class _Moved(Exception):  # noqa: N818 - a redirection is not a failure
    """The slot is on another server."""

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(f"moved to {address}")
        self.address = address


class Application:
    """Writes at a steady rate from several workers, each with slots and keys of its own.

    Since no two workers share slots, a shard that is stalled delays only its own writers.
    `acknowledged` has every acknowledged write as `KEY=NUMBER`, in the order of their answers.
    """

    def __init__(
        self,
        seeds: Seeds,
        *,
        writes_per_second: float = 500.0,
        workers: int = 12,
        keys_per_slot: int = 1,
    ) -> None:
        self.seeds = seeds
        self.interval = workers / writes_per_second
        self.sent = 0
        self.retries = 0
        self.stopping = False
        self.unfinished = 0
        self.acknowledged: list[str] = []
        self._longest_wait = 0.0
        self._numbers: dict[str, list[int]] = {}  # what each key was acknowledged to have, growing
        self._lost: list[str] = []
        self._owners: dict[int, tuple[str, int]] = {}
        self._addresses: list[tuple[str, int]] = list(seeds.addresses)
        self._turn = 0
        name = secrets.token_hex(4)
        self._workers = [
            _Worker(self, n, _keys(_tags(n, workers), keys_per_slot, name)) for n in range(workers)
        ]
        self._tasks: list[asyncio.Task[None]] = []
        self._refreshing: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to write."""
        self._tasks = [asyncio.create_task(worker.run()) for worker in self._workers]

    async def stop(self, *, patience_seconds: float = _FINISH_SECONDS) -> None:
        """Begin no more writes and wait for those that are in progress.

        A write that is not acknowledged by then is unfinished: it counts with the time it waited.
        """
        self.stopping = True
        done, late = await asyncio.wait(self._tasks, timeout=patience_seconds)
        self._longest_wait = self.longest_wait
        self.unfinished = sum(worker.began is not None for worker in self._workers)
        for task in late:
            task.cancel()
        if self._refreshing is not None:
            self._refreshing.cancel()
            late.add(self._refreshing)
        await asyncio.gather(*late, return_exceptions=True)
        self._tasks = []
        for task in done:
            task.result()

    @property
    def longest_wait(self) -> float:
        """The longest wait of a write so far, in seconds: of those that still wait, too."""
        if not self._tasks:
            return self._longest_wait
        now = asyncio.get_running_loop().time()
        waiting = (now - worker.began for worker in self._workers if worker.began is not None)
        return max(self._longest_wait, *waiting, 0.0)

    def forget_waits(self) -> None:
        """Measure waits from now on; a write that waits already counts from its own start."""
        self._longest_wait = 0.0

    async def verify(self) -> ApplicationReport:
        """Read every key back, from whichever server owns it now.

        A server that does not respond, or redirects, may be about to be replaced: its keys are read
        again for a while. Keys that cannot be read then count as lost.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + _READ_SECONDS
        unread = await self._read([key for key, numbers in self._numbers.items() if numbers])
        while unread and loop.time() < end:
            await asyncio.sleep(_READ_AGAIN_SECONDS)
            unread = await self._read(unread)
        unreadable = [f"{key}={self._numbers[key][-1]}" for key in unread]
        return ApplicationReport(
            sent=self.sent,
            acknowledged=len(self.acknowledged),
            lost=(*self._lost, *unreadable),
            longest_wait_seconds=self.longest_wait,
            retries=self.retries,
            unfinished=self.unfinished,
        )

    async def _read(self, keys: Sequence[str]) -> list[str]:
        """Compare the keys with what was acknowledged; return those that could not be read."""
        await self._learn_owners()
        unread: list[str] = []
        by_owner: dict[tuple[str, int], list[str]] = {}
        for key in keys:
            by_owner.setdefault(self.owner_of(key_slot(key)), []).append(key)
        for address, asked in by_owner.items():
            try:
                for key, answer in await self._ask(address, asked):
                    if isinstance(answer, Exception):
                        unread.append(key)
                    else:
                        self._compare(key, answer)
            except (OSError, TimeoutError, _Failed):
                unread += asked
        return unread

    def _compare(self, key: str, answer: object) -> None:
        """Record as lost every write to a key that is newer than what the key holds."""
        found = int(answer) if isinstance(answer, bytes) and answer.isdigit() else 0
        numbers = self._numbers.get(key, [])
        kept = bisect_right(numbers, found)
        self._lost += [f"{key}={number}" for number in numbers[kept:]]
        del numbers[kept:]

    async def _ask(self, address: tuple[str, int], keys: Sequence[str]) -> list[tuple[str, object]]:
        """Return the values of the keys from a server."""
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
        self._owners.clear()  # not a cluster: a seed has every slot, or is asked again
        self._addresses = list(self.seeds.addresses)

    async def _learn_from(self, address: tuple[str, int]) -> bool:
        """Learn all owners of slots, and all servers, from one server."""
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

    def note(self, key: str, number: int, before: object, waited: float) -> None:
        """Remember an acknowledged write, and compare the value it replaced."""
        self._compare(key, before)
        self._numbers.setdefault(key, []).append(number)
        self.acknowledged.append(f"{key}={number}")
        self._longest_wait = max(self._longest_wait, waited)

    def owner_of(self, slot: int) -> tuple[str, int]:
        """Return where a slot was last observed."""
        return self._owners.get(slot) or self.any_address()

    def any_address(self) -> tuple[str, int]:
        """Return one of the known servers, the next each time."""
        self._turn += 1
        return self._addresses[self._turn % len(self._addresses)]

    def avoid(self, address: tuple[str, int]) -> None:
        """Ask other servers first: an address that did not respond may be gone.

        When no known server is left, it starts again with the seeds, like a new client.
        """
        if address in self._addresses:
            self._addresses.remove(address)
        if not self._addresses:
            self._addresses = list(self.seeds.addresses)

    def hear_of(self, addresses: Iterable[tuple[str, int]]) -> None:
        """Add servers, as from DNS: all known ones may be gone permanently."""
        self._addresses += [place for place in addresses if place not in self._addresses]

    def refresh(self, address: tuple[str, int]) -> None:
        """Read the whole map of slots again, as clients do after a redirection."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh(address))

    async def _refresh(self, address: tuple[str, int]) -> None:
        await self._learn_from(address)

    def learn(self, slot: int, address: tuple[str, int]) -> None:
        """Remember where a slot is."""
        self._owners[slot] = address
        if address not in self._addresses:
            self._addresses.append(address)


def _keys(tags: Sequence[str], each: int, name: str) -> list[str]:
    """Return the keys of a worker: some for each of its tags, shared with no other application."""
    return [f"{{{tag}}}:{name}:{n}" for n in range(each) for tag in tags]


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
