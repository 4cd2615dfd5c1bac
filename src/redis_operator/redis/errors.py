"""What can go wrong between us and one server.

RedisError
├── LinkError                    the bytes did not get there or back: nothing is known of the effect
│   ├── RefusedError             connection refused: the process is gone or not yet up
│   ├── LostError                an open connection ended; commands in flight may have been done
│   └── DeadlineError            no answer in time; the command may still be done later
├── ReplyError                   the server answered with an error
│   ├── RedirectError            another node has the slot: MovedError, AskError
│   ├── LoadingError             the server reads its dataset, and is well
│   ├── BusyError                a script runs, and the server is well
│   ├── ClusterDownError · TryAgainError · CrossSlotError
│   ├── NoAuthError · WrongPassError · NoPermError
│   ├── ReadOnlyError · MasterDownError · NoReplicasError · MisconfError · OutOfMemoryError
│   ├── BusyKeyError · NoScriptError · ExecAbortError · InProgressError
│   ├── NoQuorumError · NoGoodReplicaError · UnknownPrimaryError    of sentinels
│   └── UnknownCommandError      this engine or version does not have the command
├── MalformedReplyError          the answer is not what this command answers
└── NotAllowedError              the command is not on our allow-list (a bug of ours)

An error of one node is data to its caller: catch `RedisError`, keep it, go on with other nodes.
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
    """Anything that went wrong with one server. `address` is `host:port` where it is known."""

    def __init__(self, message: str, *, address: str = "") -> None:
        super().__init__(f"{address}: {message}" if address else message)
        self.message = message
        self.address = address


class LinkError(RedisError):
    """The bytes did not get there or back; whether a command was done is unknown."""


class RefusedError(LinkError):
    """Nobody listens at the address. The host answered, so the process is gone or not yet up."""


class LostError(LinkError):
    """An open connection ended."""


class DeadlineError(LinkError):
    """No answer in time. Silence is not death: the node is unknown, not down."""


class MalformedReplyError(RedisError):
    """The answer is not what this command answers. `reply` holds its beginning."""

    def __init__(self, message: str, *, reply: object = "", address: str = "") -> None:
        shown = repr(reply)
        super().__init__(f"{message}, got {shown[:200]}", address=address)
        self.complaint = message
        self.reply = reply

    def at(self, address: str) -> MalformedReplyError:
        """The same complaint about a server at a known address."""
        return MalformedReplyError(self.complaint, reply=self.reply, address=address)


class NotAllowedError(RedisError):
    """The command is not on the allow-list of `commands`: it is never sent."""


class ReplyError(RedisError):
    """The server answered with an error. `code` is its first word."""

    code = ""

    def __init__(self, message: str, *, address: str = "") -> None:
        super().__init__(message, address=address)
        self.code = message.split(" ", 1)[0] if message else ""


class RedirectError(ReplyError):
    """Another node has the slot: `slot`, `host`, `port` say which. An empty host means the same."""

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
    """The server reads its dataset. It is alive and must be left alone."""


class BusyError(ReplyError):
    """A script or function runs. The server is alive and must be left alone."""


class ClusterDownError(ReplyError):
    """The cluster does not serve this slot now."""


class TryAgainError(ReplyError):
    """A multi-key command hit a slot that is half moved."""


class CrossSlotError(ReplyError):
    """The keys of one command are in different slots."""


class NoAuthError(ReplyError):
    """The connection did not authenticate."""


class WrongPassError(ReplyError):
    """The user or the password is wrong, or the user is disabled."""


class NoPermError(ReplyError):
    """The user may not run this command or touch this key."""


class ReadOnlyError(ReplyError):
    """The server is a replica."""


class MasterDownError(ReplyError):
    """The replica lost its primary and does not serve stale data."""


class NoReplicasError(ReplyError):
    """Fewer replicas are in sync than min-replicas-to-write asks for."""


class MisconfError(ReplyError):
    """Writing to disk fails, so the server refuses writes."""


class OutOfMemoryError(ReplyError):
    """maxmemory is reached and nothing may be evicted."""


class BusyKeyError(ReplyError):
    """The key exists on the receiving side already."""


class NoScriptError(ReplyError):
    """The server does not know the script; load it first."""


class ExecAbortError(ReplyError):
    """A transaction was dropped because one of its commands was refused."""


class InProgressError(ReplyError):
    """The same kind of work is being done already."""


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
    """Give an error line of the protocol (without its `-`) its type."""
    kind = _BY_CODE.get(message.split(" ", 1)[0])
    if kind is None:
        if any(text in message for text in _NO_SUCH_PRIMARY):
            kind = UnknownPrimaryError
        elif any(text in message for text in _UNKNOWN):
            kind = UnknownCommandError
        else:
            kind = ReplyError
    return kind(message, address=address)
