"""Restore a snapshot by replication: act as the primary of the servers that load it.

A server that replicates loads the snapshot itself, in memory or on a volume, with whatever files it
keeps; so nothing here knows how an engine stores data. The snapshot is compared with the manifest
while it is sent, and its last bytes are sent only when all of it is what was written. A server
drops a snapshot without an end, so it never has one that is damaged.

Guarantees:
    - No server gets the end of a snapshot that differs from the one that was written.
    - Only a client with the password gets data, and no other one can make memory grow.
    - The history is new: no server of the database that was backed up has the same.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress

import hiredis

from redis_operator.redis.resp import encode

from .errors import Damaged, KeyMissing, WorkerError
from .listening import listen
from .manifest import MANIFEST, Manifest, ManifestError, StoredPart, read_manifest
from .replica import Login
from .squeeze import Decompressor
from .store import Shelf
from .task import Identity

__all__ = ["Primary", "find_part", "manifest_of", "rdb_of", "trusted", "verify"]

_LOG = logging.getLogger(__name__)
_PING = encode(("PING",))
_GETACK = encode(("REPLCONF", "GETACK", "*"))
_PING_SECONDS = 1.0
_IDLE_SECONDS = 3600.0
_LOGIN_SECONDS = 30.0
_STRANGER_BYTES = 16 << 10  # what is read from a client that has not logged in
_COMMAND_BYTES = 1 << 20
_OUT = 1 << 20
_EMPTY_LINES = re.compile(rb"\r\n\n+")


async def manifest_of(shelf: Shelf) -> Manifest:
    """Return the manifest of a backup. Raises `Damaged`."""
    raw = await shelf.get(MANIFEST)
    if raw is None:
        raise Damaged(f"there is no {MANIFEST}, so there is no backup")
    return trusted(shelf, raw)


def trusted(shelf: Shelf, raw: bytes) -> Manifest:
    """Return a manifest that can be read, and that has a valid signature where there is a key.

    Raises `Damaged` and `KeyMissing`.
    """
    try:
        found = read_manifest(raw)
    except ManifestError as error:
        raise Damaged(str(error)) from error
    if shelf.seal is not None:
        shelf.seal.check(raw, found)
    elif found.encryption is not None:
        raise KeyMissing(
            f"the backup is encrypted with key {found.encryption.key_id}; name the Secret that has "
            "it in spec.encryption.secretName"
        )
    if shelf.identity is not None:
        _check_identity(shelf.identity, found)
    return found


def _check_identity(wanted: Identity, found: Manifest) -> None:
    """Raise `Damaged` where a manifest is of another backup; earlier ones name none."""
    names = Identity(found.namespace, found.redis, found.backup or wanted.backup)
    if names != wanted:
        raise Damaged(
            f"{MANIFEST} is that of backup {found.backup or '(without a name)'} of Redis "
            f"{found.namespace}/{found.redis}, and not of backup {wanted.backup} of Redis "
            f"{wanted.namespace}/{wanted.redis}: another one was put in its place. To restore that "
            "one, name it by its storage and path"
        )


async def find_part(shelf: Shelf) -> tuple[Manifest, StoredPart]:
    """Return the manifest of a backup of one part, and that part. Raises `Damaged`."""
    found = await manifest_of(shelf)
    if len(found.parts) != 1:
        raise Damaged(f"the backup has {len(found.parts)} shards, and one server holds one")
    return found, found.parts[0]


async def rdb_of(shelf: Shelf, part: StoredPart) -> AsyncGenerator[bytes, None]:
    """Return the bytes of a snapshot as a server sent them. Raises `Damaged`.

    The last piece is returned when everything was compared with the manifest. The next piece is
    read and decompressed while the caller uses the last one.
    """
    pieces = _compared(shelf, part)
    coming = asyncio.ensure_future(anext(pieces, None))
    try:
        while (piece := await coming) is not None:
            coming = asyncio.ensure_future(anext(pieces, None))
            yield piece
    finally:
        coming.cancel()
        with suppress(asyncio.CancelledError, WorkerError):
            await coming
        await pieces.aclose()


async def _compared(shelf: Shelf, part: StoredPart) -> AsyncGenerator[bytes, None]:
    """Return the pieces of a snapshot, the last one after all were compared with the manifest."""
    digest, size, held = hashlib.sha256(), 0, b""
    async for piece in _decompressed(shelf, part, digest.update):
        size += len(piece)
        if size > part.size:
            raise Damaged(f"{part.object} is damaged: it has more than {part.size} bytes")
        if held:
            yield held
        held = piece
    if (size, digest.hexdigest()) != (part.size, part.sha256):
        raise Damaged(
            f"{part.object} is damaged: {size} bytes with another checksum than the "
            f"{part.size} that were written"
        )
    if held:
        yield held


async def _decompressed(
    shelf: Shelf, part: StoredPart, seen: Callable[[bytes], object]
) -> AsyncIterator[bytes]:
    """Return what a frame stands for; each piece was `seen` in the thread that made it."""
    decompressor, stored = Decompressor(), 0

    def made_of(piece: bytes) -> bytes:
        made = decompressor.decompress(piece, _OUT)
        seen(made)
        return made

    async for piece in shelf.read(part.object):
        stored += len(piece)
        more = piece
        while True:
            try:
                made = await asyncio.to_thread(made_of, more)
            except ValueError as error:
                raise Damaged(f"{part.object} is damaged: {error}") from error
            if made:
                yield made
            if decompressor.needs_input or decompressor.eof:
                break
            more = b""
    if not decompressor.eof or stored != part.stored:
        raise Damaged(f"{part.object} is damaged: it has {stored} of {part.stored} bytes")


async def verify(shelf: Shelf, part: StoredPart) -> None:
    """Read a part from end to end. Raises `Damaged` unless it is what was written."""
    async for _ in rdb_of(shelf, part):
        pass


class Primary:
    """A primary with one snapshot, and no more writes than `stream` returns: `stream_size` bytes.

    `whole` is set when a replica has acknowledged everything. INFO names the offset of the end from
    the beginning, so that a replica is not taken for whole before. Every replica is given the same
    bytes from offset 0, whoever else is there: what others are sent puts none behind the end.
    """

    def __init__(
        self,
        shelf: Shelf,
        manifest: Manifest,
        part: StoredPart,
        login: Callable[[], Login],
        *,
        stream: Callable[[], AsyncIterator[bytes]] | None = None,
        stream_size: int = 0,
    ) -> None:
        self.whole = asyncio.Event()
        self.failure: WorkerError | None = None  # why the rest of the data cannot be sent
        self.failed = asyncio.Event()  # set with it
        self._stream = stream
        self._stream_size = stream_size
        self._shelf = shelf
        self._manifest = manifest
        self._part = part
        self._login = login
        self._id = secrets.token_hex(20)
        self._run_id = secrets.token_hex(20)
        self.sent = 0  # how often a replica began to read the snapshot
        self._end: int | None = None  # when everything was sent

    async def serve(self, host: str, port: int) -> asyncio.Server:
        """Listen until the server that is returned is closed."""
        return await listen(self._client, host, port)

    async def serve_until(self, stop: asyncio.Event, host: str, port: int) -> None:
        """Listen until `stop` is set. Raises `WorkerError` once the content cannot be read."""
        server = await self.serve(host, port)
        ends = [asyncio.ensure_future(event.wait()) for event in (stop, self.failed)]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            server.close()
            for end in ends:
                end.cancel()
        if self.failure is not None and not stop.is_set():
            raise self.failure

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._talk(reader, writer)
        except (OSError, asyncio.IncompleteReadError, hiredis.HiredisError) as error:
            _LOG.info("a connection ended: %s", error)
        except WorkerError as error:
            _LOG.warning("what is given cannot be read to its end: %s", error)
            self.failure = error
            self.failed.set()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parser, known, held = hiredis.Reader(), False, 0
        while True:
            async with asyncio.timeout(_IDLE_SECONDS if known else _LOGIN_SECONDS):
                data = await reader.read(65536)
            held += len(data)
            if not data or held > (_COMMAND_BYTES if known else _STRANGER_BYTES):
                return
            parser.feed(data)
            while (words := parser.gets()) is not False:
                command = _command(words)
                name = command[0].upper()
                held = 0 if known else held
                if name == b"AUTH":
                    known = self._knows(command[1:])
                    writer.write(b"+OK\r\n" if known else b"-WRONGPASS wrong user or password\r\n")
                elif not known:
                    writer.write(b"-NOAUTH Authentication required.\r\n")
                elif name in (b"PSYNC", b"SYNC"):
                    await self._replicate(reader, writer)
                    return
                else:
                    writer.write(self._answer(name))
            await writer.drain()

    def _knows(self, words: list[bytes]) -> bool:
        login = self._login()
        given = words if len(words) == 2 else [b"default", *words]
        wanted = login.user.encode(), login.password.encode()
        return len(given) == 2 and all(
            secrets.compare_digest(a, b) for a, b in zip(given, wanted, strict=True)
        )

    def _answer(self, name: bytes) -> bytes:
        if name == b"PING":
            return b"+PONG\r\n"
        if name == b"REPLCONF":
            return b"+OK\r\n"
        if name == b"INFO":
            return _bulk(self._info().encode())
        return b"-ERR this is not a server but a backup that is being restored\r\n"

    def _info(self) -> str:
        version = self._manifest.version
        valkey = self._manifest.engine == "valkey"
        lines = [
            "# Server",
            f"redis_version:{'7.2.4' if valkey else version}",
            *([f"valkey_version:{version}"] if valkey else []),
            f"run_id:{self._run_id}",
            "# Replication",
            "role:master",
            f"master_replid:{self._id}",
            f"master_repl_offset:{self._stream_size}",
            "# Cluster",
            "cluster_enabled:0",
        ]
        return "\r\n".join(lines) + "\r\n"

    async def _replicate(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send the snapshot, the stream, and then PINGs."""
        part, offset = self._part, 0
        self.sent += 1
        writer.write(f"+FULLRESYNC {self._id} {offset}\r\n${part.size}\r\n".encode())
        async with aclosing(rdb_of(self._shelf, part)) as pieces:
            async for piece in pieces:
                writer.write(piece)
                await writer.drain()
        _LOG.info("the snapshot was sent: %s bytes", part.size)
        listening = asyncio.ensure_future(self._listen(reader))
        try:
            if self._stream is not None:
                async for piece in self._stream():
                    offset += len(piece)
                    writer.write(piece)
                    await writer.drain()
                _LOG.info("the stream was sent up to its cut")
            self._end = offset + len(_GETACK)
            writer.write(_GETACK)
            while not listening.done():
                writer.write(_PING)
                await writer.drain()
                await asyncio.wait([listening], timeout=_PING_SECONDS)
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError, OSError, hiredis.HiredisError):
                await listening

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Read the acknowledgements of a replica, until it disconnects.

        While it empties itself and loads, it sends empty lines, which are not part of a command.
        """
        parser, held = hiredis.Reader(), 0
        while data := await reader.read(65536):
            received = _EMPTY_LINES.sub(b"\r\n", data)
            received = received if parser.has_data() else received.lstrip(b"\n")
            held += len(received)
            if held > _COMMAND_BYTES:
                return
            parser.feed(received)
            while (words := parser.gets()) is not False:
                held = 0
                # A replica acknowledges GETACK with the offset before it.
                if self._end is not None and _acknowledged(words) >= self._end - len(_GETACK):
                    self.whole.set()


def _command(words: object) -> list[bytes]:
    """Return the words of a command. Raises `hiredis.ProtocolError` where it is something else."""
    if not isinstance(words, list) or not words or not all(isinstance(w, bytes) for w in words):
        raise hiredis.ProtocolError("what was sent is not a command")
    return words


def _acknowledged(words: object) -> int:
    if isinstance(words, list) and len(words) >= 3 and words[1].upper() == b"ACK":
        return int(words[2])
    return -1


def _bulk(content: bytes) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(content), content)
