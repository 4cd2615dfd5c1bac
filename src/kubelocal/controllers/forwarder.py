"""Service addresses that accept connections: TCP forwarders that follow the EndpointSlices.

`wanted` is pure: services and slices to a table of listeners and their backends. `Forwarder` makes
the machine match the table. A new connection goes to the next ready backend in turn, and to another
one when that refuses; an established connection is not touched when the table changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from kubecontroller import fields

__all__ = ["Address", "Forwarder", "wanted"]

Address: TypeAlias = tuple[str, int]

_LOG = logging.getLogger(__name__)
_CONNECT_SECONDS = 3.0
_CHUNK = 256 * 1024


def wanted(
    services: Iterable[Mapping[str, Any]], slices: Iterable[Mapping[str, Any]]
) -> dict[Address, tuple[Address, ...]]:
    """Return the addresses to listen on and their ready backends, in stable order."""
    by_service: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for piece in slices:
        metadata = piece["metadata"]
        name = (metadata.get("labels") or {}).get("kubernetes.io/service-name", "")
        by_service.setdefault((metadata["namespace"], name), []).append(piece)
    table: dict[Address, tuple[Address, ...]] = {}
    for service in services:
        spec, metadata = service["spec"], service["metadata"]
        address = spec.get("clusterIP")
        if not address or address == "None":
            continue
        pieces = by_service.get((metadata["namespace"], metadata["name"]), [])
        for port in spec.get("ports") or ():
            if port.get("protocol", "TCP") != "TCP":
                continue
            backends = _backends(pieces, port.get("name", ""))
            table[address, int(port["port"])] = backends
            if port.get("nodePort"):
                table["127.0.0.1", int(port["nodePort"])] = backends
    return table


def _backends(slices: Sequence[Mapping[str, Any]], port_name: str) -> tuple[Address, ...]:
    found = {
        (address, int(port["port"]))
        for piece in slices
        for port in piece.get("ports") or ()
        if (port.get("name") or "") == port_name
        for endpoint in piece.get("endpoints") or ()
        if endpoint["conditions"].get("ready")
        for address in endpoint["addresses"]
    }
    return tuple(sorted(found))


class _Listener:
    """One listening socket and the backends its connections go to in turn."""

    def __init__(self, backends: tuple[Address, ...]) -> None:
        self.backends = backends
        self.server: asyncio.Server | None = None
        self._turn = 0
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self, address: Address) -> None:
        self.server = await asyncio.start_server(self._accept, *address)

    async def close(self) -> None:
        if self.server is not None:
            self.server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            connected = await self._connect()
            if connected is None:
                writer.transport.abort()  # a reset, as kube-proxy gives when nothing is ready
                return
            back_reader, back_writer = connected
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(_copy(reader, back_writer))
                    group.create_task(_copy(back_reader, writer))
            finally:
                back_writer.close()
        finally:
            writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for _ in range(len(self.backends)):
            self._turn = (self._turn + 1) % len(self.backends)
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await asyncio.open_connection(*self.backends[self._turn])
            except (OSError, TimeoutError):
                continue
        return None


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes, also the end of the stream: a reset on one side is a reset on the other."""
    try:
        while piece := await reader.read(_CHUNK):
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except ConnectionError:
        writer.transport.abort()


class Forwarder:
    """Keeps one listener for each address and port of the table."""

    def __init__(self) -> None:
        self._listeners: dict[Address, _Listener] = {}

    async def update(self, table: Mapping[Address, tuple[Address, ...]]) -> dict[Address, str]:
        """Make the listeners match the table; return those that could not be opened, and why."""
        for address in [a for a in self._listeners if a not in table]:
            await self._listeners.pop(address).close()
        failed: dict[Address, str] = {}
        for address, backends in table.items():
            listener = self._listeners.get(address)
            if listener is not None:
                listener.backends = backends
                continue
            listener = _Listener(backends)
            try:
                await listener.open(address)
            except OSError as error:
                failed[address] = f"cannot listen on {address[0]}:{address[1]}: {error.strerror}"
                _LOG.warning("service address does not respond", extra=fields(why=failed[address]))
                continue
            self._listeners[address] = listener
        return failed

    async def close(self) -> None:
        """Stop listening and end every connection."""
        await self.update({})
