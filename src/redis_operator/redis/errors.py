"""The errors of talking to one server.

RedisError
├── LinkError                    the connection failed: the effect of a command is unknown
│   ├── RefusedError             connection refused: the process is gone or not yet up
│   ├── LostError                an open connection ended; commands in flight may have been executed
│   └── DeadlineError            no reply in time; the command may still be executed later
├── ReplyError                   the server replied with an error
│   ├── RedirectError            another node has the slot: MovedError, AskError
│   ├── LoadingError             the server loads its dataset, and is healthy
│   ├── BusyError                a script runs, and the server is healthy
│   ├── ClusterDownError · TryAgainError · CrossSlotError
│   ├── NoAuthError · WrongPassError · NoPermError
│   ├── ReadOnlyError · MasterDownError · NoReplicasError · MisconfError · OutOfMemoryError
│   ├── BusyKeyError · NoScriptError · ExecAbortError · InProgressError
│   ├── NoQuorumError · NoGoodReplicaError · UnknownPrimaryError    of sentinels
│   └── UnknownCommandError      this engine or version does not have the command
├── MalformedReplyError          the reply does not match the command
└── NotAllowedError              the command is not on the allow-list (a bug of the operator)

An error of one node is data to its caller: catch `RedisError`, keep it, continue with other nodes.
"""

from __future__ import annotations

__all__ = [
    "AskError",
    "BusyError",
    "BusyKeyError",
    "ClusterDownError",
    "CrossSlotError",
    "DeadlineError",
    "ExecAbortError",
    "InProgressError",
    "LinkError",
    "LoadingError",
    "LostError",
    "MalformedReplyError",
    "MasterDownError",
    "MisconfError",
    "MovedError",
    "NoAuthError",
    "NoGoodReplicaError",
    "NoPermError",
    "NoQuorumError",
    "NoReplicasError",
    "NoScriptError",
    "NotAllowedError",
    "OutOfMemoryError",
    "ReadOnlyError",
    "RedirectError",
    "RedisError",
    "RefusedError",
    "ReplyError",
    "TryAgainError",
    "UnknownCommandError",
    "UnknownPrimaryError",
    "WrongPassError",
    "reply_error",
]


class RedisError(Exception):
    """Any error with one server. `address` is `host:port` where it is known."""

    def __init__(self, message: str, *, address: str = "") -> None:
        super().__init__(f"{address}: {message}" if address else message)
        self.message = message
        self.address = address


class LinkError(RedisError):
    """The connection failed; whether a command was executed is unknown."""


class RefusedError(LinkError):
    """Connection refused. The host responded, so the process has ended or has not started yet."""


class LostError(LinkError):
    """An open connection ended."""


class DeadlineError(LinkError):
    """No reply in time. Silence is not death: the node is unknown, not down."""


class MalformedReplyError(RedisError):
    """The reply does not match the command. `reply` holds its beginning."""

    def __init__(self, message: str, *, reply: object = "", address: str = "") -> None:
        shown = repr(reply)
        super().__init__(f"{message}, got {shown[:200]}", address=address)
        self.complaint = message
        self.reply = reply

    def at(self, address: str) -> MalformedReplyError:
        """Return the same error with the address of the server."""
        return MalformedReplyError(self.complaint, reply=self.reply, address=address)


class NotAllowedError(RedisError):
    """The command is not on the allow-list of `commands`: it is never sent."""


class ReplyError(RedisError):
    """The server replied with an error. `code` is its first word."""

    code = ""

    def __init__(self, message: str, *, address: str = "") -> None:
        super().__init__(message, address=address)
        self.code = message.split(" ", 1)[0] if message else ""


class RedirectError(ReplyError):
    """Another node has the slot: `slot`, `host`, `port`. An empty host means the same host."""

    def __init__(self, message: str, *, address: str = "") -> None:
        super().__init__(message, address=address)
        words = message.split()
        target = words[2] if len(words) > 2 else ""
        host, _, port = target.rpartition(":")
        self.slot = int(words[1]) if len(words) > 1 and words[1].isdecimal() else -1
        self.host = host
        self.port = int(port) if port.isdecimal() else 0


class MovedError(RedirectError):
    """The slot belongs to another node."""


class AskError(RedirectError):
    """The key has already moved to the node that imports the slot."""


class LoadingError(ReplyError):
    """The server loads its dataset. It is alive and must not be restarted."""


class BusyError(ReplyError):
    """A script or function runs. The server is alive and must not be restarted."""


class ClusterDownError(ReplyError):
    """The cluster does not serve this slot now."""


class TryAgainError(ReplyError):
    """A multi-key command used a slot that is partly migrated."""


class CrossSlotError(ReplyError):
    """The keys of one command are in different slots."""


class NoAuthError(ReplyError):
    """The connection is not authenticated."""


class WrongPassError(ReplyError):
    """The user or the password is wrong, or the user is disabled."""


class NoPermError(ReplyError):
    """The user may not run this command or access this key."""


class ReadOnlyError(ReplyError):
    """The server is a replica."""


class MasterDownError(ReplyError):
    """The replica lost its primary and does not serve stale data."""


class NoReplicasError(ReplyError):
    """Fewer replicas are in sync than min-replicas-to-write requires."""


class MisconfError(ReplyError):
    """Writing to disk fails, so the server refuses writes."""


class OutOfMemoryError(ReplyError):
    """maxmemory is reached and nothing may be evicted."""


class BusyKeyError(ReplyError):
    """The key already exists on the target."""


class NoScriptError(ReplyError):
    """The server does not know the script; load it first."""


class ExecAbortError(ReplyError):
    """A transaction was dropped because one of its commands was refused."""


class InProgressError(ReplyError):
    """The same kind of work is already in progress."""


class NoQuorumError(ReplyError):
    """Too few sentinels are usable to agree on a failover, or to authorize it."""


class NoGoodReplicaError(ReplyError):
    """A sentinel found no replica that it would promote."""


class UnknownPrimaryError(ReplyError):
    """The sentinel does not monitor a primary of that name."""


class UnknownCommandError(ReplyError):
    """This engine or version does not have the command."""


_BY_CODE: dict[str, type[ReplyError]] = {
    "MOVED": MovedError,
    "ASK": AskError,
    "LOADING": LoadingError,
    "BUSY": BusyError,
    "CLUSTERDOWN": ClusterDownError,
    "TRYAGAIN": TryAgainError,
    "CROSSSLOT": CrossSlotError,
    "NOAUTH": NoAuthError,
    "WRONGPASS": WrongPassError,
    "NOPERM": NoPermError,
    "READONLY": ReadOnlyError,
    "MASTERDOWN": MasterDownError,
    "NOREPLICAS": NoReplicasError,
    "MISCONF": MisconfError,
    "OOM": OutOfMemoryError,
    "BUSYKEY": BusyKeyError,
    "NOSCRIPT": NoScriptError,
    "EXECABORT": ExecAbortError,
    "INPROG": InProgressError,
    "NOQUORUM": NoQuorumError,
    "NOGOODSLAVE": NoGoodReplicaError,
    "NOGOODREPLICA": NoGoodReplicaError,
}
_NO_SUCH_PRIMARY = ("No such master", "No such primary")
_UNKNOWN = ("unknown command", "unknown subcommand", "Unknown subcommand")


def reply_error(message: str, *, address: str = "") -> ReplyError:
    """Return the typed error of an error line of the protocol (without its `-`)."""
    kind = _BY_CODE.get(message.split(" ", 1)[0])
    if kind is None:
        if any(text in message for text in _NO_SUCH_PRIMARY):
            kind = UnknownPrimaryError
        elif any(text in message for text in _UNKNOWN):
            kind = UnknownCommandError
        else:
            kind = ReplyError
    return kind(message, address=address)
