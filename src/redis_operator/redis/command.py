"""A command as a value: its words, the parser of its reply, and whether it may be sent at all.

`commands` creates them, `connection` runs them; the simulated Redis takes the same values. Only
commands in `ALLOWED` ever reach a server (redis-safety: the command layer has an allow-list, so a
bug elsewhere cannot flush or reset anything).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct

from .errors import MalformedReplyError, NotAllowedError, RedisError, ReplyError
from .resp import Argument, Reply

__all__ = ["ALLOWED", "Command", "Link", "check_allowed", "interpret"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

ALLOWED: Final = frozenset(
    {
        *(
            "PING",
            "INFO",
            "ROLE",
            "WAIT",
            "WAITAOF",
            "DBSIZE",
            "MULTI",
            "EXEC",
            "DISCARD",
            "ASKING",
            "TIME",
        ),
        *("ACL CAT", "ACL DELUSER", "ACL DRYRUN", "ACL GETUSER", "ACL LIST", "ACL LOAD"),
        *("ACL SETUSER", "ACL USERS", "ACL WHOAMI"),
        *("CLIENT GETNAME", "CLIENT ID", "CLIENT KILL", "CLIENT LIST", "CLIENT NO-EVICT"),
        *("CLIENT PAUSE", "CLIENT SETNAME", "CLIENT UNPAUSE"),
        *("COMMAND INFO", "CONFIG GET", "CONFIG SET"),
        *("CLUSTER ADDSLOTS", "CLUSTER ADDSLOTSRANGE", "CLUSTER BUMPEPOCH"),
        *("CLUSTER CANCELSLOTMIGRATIONS", "CLUSTER COUNT-FAILURE-REPORTS"),
        *("CLUSTER COUNTKEYSINSLOT", "CLUSTER DELSLOTS", "CLUSTER DELSLOTSRANGE"),
        *("CLUSTER FAILOVER", "CLUSTER FORGET", "CLUSTER GETKEYSINSLOT"),
        *("CLUSTER GETSLOTMIGRATIONS", "CLUSTER INFO", "CLUSTER LINKS", "CLUSTER MEET"),
        *("CLUSTER MIGRATESLOTS", "CLUSTER MIGRATION", "CLUSTER MYID", "CLUSTER MYSHARDID"),
        *("CLUSTER NODES", "CLUSTER REPLICATE", "CLUSTER RESET", "CLUSTER SET-CONFIG-EPOCH"),
        *("CLUSTER SETSLOT",),
        *("CLUSTER SHARDS", "CLUSTER SLOT-STATS", "CLUSTER SLOTS"),
        *("EVAL", "EVALSHA", "EVALSHA_RO", "SCRIPT EXISTS", "SCRIPT LOAD"),
        *("DUMP", "MEMORY USAGE", "MIGRATE", "READONLY", "READWRITE", "TYPE", "UNLINK"),
        *("FAILOVER", "REPLICAOF"),
        *("SENTINEL CKQUORUM", "SENTINEL CONFIG", "SENTINEL FAILOVER", "SENTINEL FLUSHCONFIG"),
        *("SENTINEL GET-MASTER-ADDR-BY-NAME", "SENTINEL IS-MASTER-DOWN-BY-ADDR"),
        *("SENTINEL MASTER", "SENTINEL MASTERS", "PUBLISH"),
        *("SENTINEL MONITOR", "SENTINEL MYID", "SENTINEL REMOVE", "SENTINEL REPLICAS"),
        *("SENTINEL RESET", "SENTINEL SENTINELS", "SENTINEL SET"),
        *("BGSAVE", "LASTSAVE", "SHUTDOWN SAVE", "SHUTDOWN NOSAVE", "LATENCY LATEST"),
    }
)


class Command(Struct, Generic[T], frozen=True):
    """One command and the parser of its reply."""

    arguments: tuple[Argument, ...]
    read: Callable[[Reply], T]

    @property
    def name(self) -> str:
        """The command and, where it has one, its subcommand: never a key, value or secret."""
        words = [_word(argument) for argument in self.arguments[:2]]
        both = " ".join(words).upper()
        return both if both in ALLOWED else words[0].upper() if words else ""

    def __repr__(self) -> str:
        return f"Command({self.name})"


class Link(Protocol):
    """The interface that runs commands on one server: a connection, or a simulated server."""

    async def run(self, command: Command[T], *, timeout: float) -> T:
        """Run one command; raise what went wrong."""
        ...

    async def run_all(
        self, commands: Sequence[Command[T]], *, timeout: float
    ) -> list[T | ReplyError | MalformedReplyError]:
        """Run commands in one write; return replies and errors in order. Only lost links raise."""
        ...


def _word(argument: Argument) -> str:
    return argument.decode("utf-8", "replace") if isinstance(argument, bytes) else str(argument)


def check_allowed(command: Command[T]) -> None:
    """Raise `NotAllowedError` unless the command is on the list."""
    if command.name not in ALLOWED:
        raise NotAllowedError(
            f"{command.name or 'an empty command'} is not on the allow-list and is never sent"
        )


def interpret(command: Command[T], reply: Reply) -> T:
    """Turn a raw reply into the command's value, or raise a typed error."""
    if isinstance(reply, Exception):
        raise reply
    try:
        return command.read(reply)
    except RedisError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise MalformedReplyError(
            f"{command.name} got an unexpected reply ({error})", reply=reply
        ) from error
