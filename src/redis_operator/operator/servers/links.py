"""One open connection to each server, and the evidence that its end gives.

The kernel closes a connection within milliseconds of the end of the process at its other end, long
before any timeout. So the operator keeps one idle connection to every server of every database;
when one is lost it observes that database at once.

What counts as death: the connection to a server that had reported its id was lost, and the same
address now refuses connections. Silence is never death; a refusal by an address where no server was
verified is only a server that has not started.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable

from msgspec import Struct

from redis_operator.redis.connection import Address, Connection, Credentials, connect
from redis_operator.redis.errors import LinkError

__all__ = ["Links", "Target"]


class Target(Struct, frozen=True):
    """A server to talk to: its pod, its address, and the operator's login."""

    uid: str
    address: Address
    credentials: Credentials | None = None
    tls: ssl.SSLContext | None = None


class _Link:
    """What is known of one pod's server."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.connection: Connection | None = None
        self.node_id = ""
        self.silent_since: float | None = None
        self.opening = asyncio.Lock()


class Links:
    """The connections of one operator, by the uid of the pod at the other end."""

    def __init__(self, *, on_lost: Callable[[str], None]) -> None:
        self._links: dict[str, _Link] = {}
        self._on_lost = on_lost

    async def open(self, target: Target, *, timeout: float) -> Connection:
        """Return the connection to a server, opened if necessary. Raises `RedisError`."""
        link = self._link(target)
        async with link.opening:  # concurrent callers get the same connection
            if link.connection is not None and link.connection.is_open:
                return link.connection
            uid = target.uid

            def lost(_: LinkError) -> None:
                self._on_lost(uid)

            opened = await connect(
                target.address,
                timeout=timeout,
                credentials=target.credentials,
                tls=target.tls,
                on_lost=lost,
            )
            if self._links.get(uid) is not link:
                opened.close()  # or it would stay open as long as the server runs
                message = "the pod was replaced while a connection was opened"
                raise LinkError(message, address=str(target.address))
            link.connection = opened
            return opened

    def drop(self, uid: str) -> None:
        """Close a connection that is not usable any more; the next observation opens a new one."""
        link = self._links.get(uid)
        if link is not None and link.connection is not None:
            link.connection.close()
            link.connection = None

    def answered(self, uid: str, node_id: str) -> None:
        """Note that the server reported its id."""
        link = self._links[uid]
        link.node_id, link.silent_since = node_id, None

    def failed(self, uid: str, now: float) -> float:
        """Note that the server did not respond; return since when."""
        link = self._links.get(uid)
        if link is None:
            return now
        if link.silent_since is None:
            link.silent_since = now
        return link.silent_since

    def last_id(self, uid: str) -> str | None:
        """Return the id that the server in this pod last reported, at this very address."""
        link = self._links.get(uid)
        return link.node_id or None if link is not None else None

    def keep_only(self, uids: Iterable[str], *, of: Iterable[str]) -> None:
        """Of the pods `of` one database, close the connections to all but `uids`."""
        for uid in set(of) - set(uids):
            self.drop(uid)
            self._links.pop(uid, None)

    def close(self) -> None:
        """Close every connection."""
        for uid in list(self._links):
            self.drop(uid)
        self._links.clear()

    def _link(self, target: Target) -> _Link:
        link = self._links.get(target.uid)
        if link is None or link.target.address != target.address:
            self.drop(target.uid)
            link = self._links[target.uid] = _Link(target)
        elif link.target != target:
            self.drop(target.uid)  # new credentials do not change its id
            link.target = target
        return link
