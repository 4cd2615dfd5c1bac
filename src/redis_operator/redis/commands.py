"""Typed commands: each function returns a `Command`; `Connection.run` runs it. No I/O here.

Destructive commands say so. Planning decides whether one may be used now, and the caller checks it
again; this module only knows the syntax and the reply.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from .command import Command, interpret
from .errors import MalformedReplyError
from .info import parse_info, parse_replication
from .parsing import (
    as_integer,
    as_list,
    as_mapping,
    as_ok,
    as_optional_bytes,
    as_text,
    parse_cluster_info,
    parse_cluster_links,
    parse_cluster_nodes,
    parse_cluster_shards,
    parse_migrations,
    parse_role,
)
from .replies import (
    ClusterInfo,
    ClusterLink,
    ClusterNode,
    Info,
    InfoReplication,
    MigrationJob,
    Role,
    ShardView,
)
from .resp import Argument, Reply
from .slots import SLOTS, SlotSet

__all__ = [
    "FailoverOption",
    "abort_failover",
    "acl_deluser",
    "acl_dryrun",
    "acl_list",
    "acl_load",
    "acl_setuser",
    "acl_whoami",
    "add_slots",
    "add_slots_range",
    "asking",
    "bgsave",
    "bump_epoch",
    "cancel_migration",
    "cancel_slot_migrations",
    "client_pause_writes",
    "client_setname",
    "client_unpause",
    "cluster_info",
    "cluster_links",
    "cluster_nodes",
    "cluster_shards",
    "config_get",
    "config_set",
    "coordinated_failover",
    "count_keys_in_slot",
    "dbsize",
    "delete_slots",
    "dump",
    "evalsha",
    "evalsha_ro",
    "failover",
    "forget",
    "get_keys_in_slot",
    "info",
    "info_replication",
    "meet",
    "memory_usage",
    "migrate_keys",
    "migrate_slots",
    "migration_import",
    "migration_status",
    "my_id",
    "ping",
    "replica_of",
    "replica_of_no_one",
    "replica_of_no_port",
    "replicate",
    "reset_hard",
    "role",
    "script_load",
    "server_time",
    "set_config_epoch",
    "set_slot_importing",
    "set_slot_migrating",
    "set_slot_node",
    "set_slot_stable",
    "shutdown",
    "slot_migrations",
    "transaction",
    "unlink",
    "wait_for_replicas",
]


class FailoverOption(Enum):
    """The options of CLUSTER FAILOVER. The other two can lose acknowledged writes of a live
    primary."""

    COORDINATED = ""
    FORCE = "FORCE"
    TAKEOVER = "TAKEOVER"


def ping() -> Command[str]:
    """PING; a loading or busy server replies with an error that says so."""
    return Command(("PING",), as_text)


def info() -> Command[Info]:
    """INFO, the default sections."""
    return Command(("INFO",), parse_info)


def info_replication() -> Command[InfoReplication]:
    """INFO replication: role, offsets, link."""
    return Command(("INFO", "replication"), parse_replication)


def role() -> Command[Role]:
    """ROLE."""
    return Command(("ROLE",), parse_role)


def server_time() -> Command[int]:
    """TIME: the server's clock, in microseconds since 1970."""
    return Command(("TIME",), _as_microseconds)


def _as_microseconds(reply: Reply) -> int:
    seconds, rest = as_list(reply)
    return int(as_text(seconds)) * 1_000_000 + int(as_text(rest))


def dbsize() -> Command[int]:
    """DBSIZE."""
    return Command(("DBSIZE",), as_integer)


def bgsave() -> Command[str]:
    """BGSAVE: fork and write the RDB file."""
    return Command(("BGSAVE",), as_text)


def shutdown(*, save: bool) -> Command[None]:
    """SHUTDOWN. A server that obeys closes the connection instead of replying."""
    return Command(("SHUTDOWN", "SAVE" if save else "NOSAVE"), as_ok)


def wait_for_replicas(count: int, milliseconds: int) -> Command[int]:
    """WAIT: how many replicas acknowledged the writes of this connection. 0 ms waits without
    limit."""
    return Command(("WAIT", count, milliseconds), as_integer)


def replica_of(host: str, port: int) -> Command[None]:
    """REPLICAOF: the server drops its data unless it has the same history. I1, K-11"""
    return Command(("REPLICAOF", host, port), _as_done)


def replica_of_no_one() -> Command[None]:
    """REPLICAOF NO ONE: the server accepts writes and continues with a new history of its own."""
    return Command(("REPLICAOF", "NO", "ONE"), _as_done)


def replica_of_no_port() -> Command[None]:
    """REPLICAOF with an invalid port: every server refuses it; a user without the right gets
    NOPERM."""
    return Command(("REPLICAOF", "127.0.0.1", "none"), _as_done)


def _as_done(reply: Reply) -> None:
    """OK, also where nothing changed: `OK Already connected to specified master`."""
    if reply != b"QUEUED" and not as_text(reply).startswith("OK"):
        raise MalformedReplyError("expected OK", reply=reply)


def coordinated_failover(host: str, port: int, *, timeout_milliseconds: int) -> Command[None]:
    """FAILOVER TO ... TIMEOUT: OK means started; see `failover_state` of INFO replication. I6"""
    words = ("FAILOVER", "TO", host, port, "TIMEOUT", timeout_milliseconds)
    return Command(words, as_ok)


def abort_failover() -> Command[None]:
    """FAILOVER ABORT."""
    return Command(("FAILOVER", "ABORT"), as_ok)


def transaction(commands: Sequence[Command[Any]]) -> list[Command[Any]]:
    """MULTI, the commands, EXEC: for one `run_all`, whose last reply lists their values."""

    def read(reply: Reply) -> list[Any]:
        answers = as_list(reply)
        return [interpret(c, answer) for c, answer in zip(commands, answers, strict=True)]

    queued = [Command(command.arguments, as_ok) for command in commands]
    return [Command(("MULTI",), as_ok), *queued, Command(("EXEC",), read)]


# --- configuration, clients, users -----------------------------------------------------------


def config_get(*patterns: str) -> Command[dict[str, str]]:
    """CONFIG GET. More than one pattern needs Redis 7 or Valkey."""
    return Command(("CONFIG", "GET", *patterns), _texts)


def _texts(reply: Reply) -> dict[str, str]:
    return {name: as_text(value) for name, value in as_mapping(reply).items()}


def config_set(values: Mapping[str, str]) -> Command[None]:
    """CONFIG SET. More than one directive needs Redis 7 or Valkey, and is all or nothing there."""
    pairs = [word for pair in values.items() for word in pair]
    return Command(("CONFIG", "SET", *pairs), as_ok)


def client_pause_writes(milliseconds: int) -> Command[None]:
    """CLIENT PAUSE ... WRITE: the server ends it by its timeout even if the caller dies. I10"""
    return Command(("CLIENT", "PAUSE", milliseconds, "WRITE"), as_ok)


def client_unpause() -> Command[None]:
    """CLIENT UNPAUSE."""
    return Command(("CLIENT", "UNPAUSE"), as_ok)


def client_setname(name: str) -> Command[None]:
    """CLIENT SETNAME, so that CLIENT LIST shows that the connection is the operator's."""
    return Command(("CLIENT", "SETNAME", name), as_ok)


def client_kill_user(name: str) -> Command[int]:
    """CLIENT KILL USER: close every connection of a user; return how many there were."""
    return Command(("CLIENT", "KILL", "USER", name), as_integer)


def acl_whoami() -> Command[str]:
    """ACL WHOAMI."""
    return Command(("ACL", "WHOAMI"), as_text)


def acl_list() -> Command[tuple[str, ...]]:
    """ACL LIST; passwords come as hashes."""
    return Command(("ACL", "LIST"), lambda reply: tuple(as_text(line) for line in as_list(reply)))


def acl_load() -> Command[None]:
    """ACL LOAD: read the ACL file again; before Redis 7.2 all users but `default` are
    disconnected."""
    return Command(("ACL", "LOAD"), as_ok)


def acl_setuser(name: str, rules: Sequence[str]) -> Command[None]:
    """ACL SETUSER: add rules or passwords to a user, creating it."""
    return Command(("ACL", "SETUSER", name, *rules), as_ok)


def acl_deluser(name: str) -> Command[int]:
    """ACL DELUSER: remove a user and close its connections."""
    return Command(("ACL", "DELUSER", name), as_integer)


def acl_dryrun(user: str, command: Sequence[Argument]) -> Command[str]:
    """ACL DRYRUN (Redis 7): `OK`, or the reason why the user may not run the command."""
    return Command(("ACL", "DRYRUN", user, *command), as_text)


# --- cluster: queries ------------------------------------------------------------------------


def my_id() -> Command[str]:
    """CLUSTER MYID."""
    return Command(("CLUSTER", "MYID"), as_text)


def cluster_nodes() -> Command[tuple[ClusterNode, ...]]:
    """CLUSTER NODES."""
    return Command(("CLUSTER", "NODES"), parse_cluster_nodes)


def cluster_info() -> Command[ClusterInfo]:
    """CLUSTER INFO."""
    return Command(("CLUSTER", "INFO"), parse_cluster_info)


def cluster_shards() -> Command[tuple[ShardView, ...]]:
    """CLUSTER SHARDS (Redis 7)."""
    return Command(("CLUSTER", "SHARDS"), parse_cluster_shards)


def cluster_links() -> Command[tuple[ClusterLink, ...]]:
    """CLUSTER LINKS (Redis 7)."""
    return Command(("CLUSTER", "LINKS"), parse_cluster_links)


def count_keys_in_slot(slot: int) -> Command[int]:
    """CLUSTER COUNTKEYSINSLOT."""
    return Command(("CLUSTER", "COUNTKEYSINSLOT", slot), as_integer)


def slot_stats(
    first: int = 0, last: int = SLOTS - 1
) -> Command[tuple[tuple[int, dict[str, int]], ...]]:
    """CLUSTER SLOT-STATS (Valkey 8, Redis 8.2): the statistics of each slot that the server
    owns."""
    return Command(("CLUSTER", "SLOT-STATS", "SLOTSRANGE", first, last), _slot_stats)


def _slot_stats(reply: Reply) -> tuple[tuple[int, dict[str, int]], ...]:
    found = []
    for entry in as_list(reply):
        slot, values = as_list(entry)
        stats = {name: as_integer(value) for name, value in as_mapping(values).items()}
        found.append((as_integer(slot), stats))
    return tuple(found)


def get_keys_in_slot(slot: int, count: int) -> Command[tuple[bytes, ...]]:
    """CLUSTER GETKEYSINSLOT: up to `count` keys, as bytes."""
    return Command(("CLUSTER", "GETKEYSINSLOT", slot, count), _keys)


def _keys(reply: Reply) -> tuple[bytes, ...]:
    keys = as_list(reply)
    if not all(isinstance(key, bytes) for key in keys):
        raise ValueError("a key is not a string")
    return tuple(key for key in keys if isinstance(key, bytes))


# --- cluster: changing -----------------------------------------------------------------------


def meet(ip: str, port: int, bus_port: int) -> Command[None]:
    """CLUSTER MEET. Harmless when repeated; a wrong address joins two clusters permanently. I11"""
    return Command(("CLUSTER", "MEET", ip, port, bus_port), as_ok)


def forget(node_id: str) -> Command[None]:
    """CLUSTER FORGET: must reach every node within the ban window of 60 s. I3, I11"""
    return Command(("CLUSTER", "FORGET", node_id), as_ok)


def reset_hard() -> Command[None]:
    """CLUSTER RESET HARD: a new node id for a server that holds no key; the caller checked that.
    I1"""
    return Command(("CLUSTER", "RESET", "HARD"), as_ok)


def replicate(primary_id: str) -> Command[None]:
    """CLUSTER REPLICATE: the node drops its data and copies the primary's. I1"""
    return Command(("CLUSTER", "REPLICATE", primary_id), as_ok)


def add_slots(slots: SlotSet) -> Command[None]:
    """CLUSTER ADDSLOTS with every slot listed: all versions. I3"""
    return Command(("CLUSTER", "ADDSLOTS", *slots), as_ok)


def add_slots_range(slots: SlotSet) -> Command[None]:
    """CLUSTER ADDSLOTSRANGE (Redis 7). I3"""
    bounds = [bound for pair in slots.ranges() for bound in pair]
    return Command(("CLUSTER", "ADDSLOTSRANGE", *bounds), as_ok)


def delete_slots(slots: SlotSet) -> Command[None]:
    """CLUSTER DELSLOTS: the node that receives it no longer knows an owner of these slots."""
    return Command(("CLUSTER", "DELSLOTS", *slots), as_ok)


def set_config_epoch(epoch: int) -> Command[None]:
    """CLUSTER SET-CONFIG-EPOCH: only on a new node that knows no other."""
    return Command(("CLUSTER", "SET-CONFIG-EPOCH", epoch), as_ok)


def bump_epoch() -> Command[str]:
    """CLUSTER BUMPEPOCH: others give up slots that this node claims, and delete their keys. I3"""
    return Command(("CLUSTER", "BUMPEPOCH"), as_text)


def failover(mode: FailoverOption = FailoverOption.COORDINATED) -> Command[None]:
    """CLUSTER FAILOVER, to a replica. OK means started, not done: check ROLE. I6, I7"""
    words = (mode.value,) if mode.value else ()
    return Command(("CLUSTER", "FAILOVER", *words), as_ok)


def set_slot_importing(slot: int, source_id: str) -> Command[None]:
    """CLUSTER SETSLOT ... IMPORTING, on the target and before MIGRATING. I4"""
    return Command(("CLUSTER", "SETSLOT", slot, "IMPORTING", source_id), as_ok)


def set_slot_migrating(slot: int, target_id: str) -> Command[None]:
    """CLUSTER SETSLOT ... MIGRATING, on the source. I4"""
    return Command(("CLUSTER", "SETSLOT", slot, "MIGRATING", target_id), as_ok)


def set_slot_node(slot: int, owner_id: str) -> Command[None]:
    """CLUSTER SETSLOT ... NODE, on the target first and only when the source holds no key. I4"""
    return Command(("CLUSTER", "SETSLOT", slot, "NODE", owner_id), as_ok)


def set_slot_stable(slot: int) -> Command[None]:
    """CLUSTER SETSLOT ... STABLE: forget that the slot was open."""
    return Command(("CLUSTER", "SETSLOT", slot, "STABLE"), as_ok)


# --- moving keys -----------------------------------------------------------------------------


def migrate_keys(
    keys: Iterable[bytes],
    *,
    host: str,
    port: int,
    timeout_milliseconds: int,
    username: str,
    password: str,
    replace: bool,
) -> Command[str]:
    """MIGRATE keys of one slot; both servers are blocked meanwhile. Replies OK or NOKEY."""
    login = ("AUTH2", username, password) if password else ()
    words: tuple[Argument, ...] = (
        *("MIGRATE", host, port, "", 0, timeout_milliseconds),
        *(("REPLACE",) if replace else ()),
        *login,
        "KEYS",
        *keys,
    )
    return Command(words, as_text)


def memory_usage(key: bytes) -> Command[int]:
    """MEMORY USAGE: bytes a key takes, sampled; 0 when it does not exist."""
    return Command(
        ("MEMORY", "USAGE", key), lambda reply: 0 if reply is None else as_integer(reply)
    )


def script_load(source: str) -> Command[str]:
    """SCRIPT LOAD: returns the digest for EVALSHA."""
    return Command(("SCRIPT", "LOAD", source), as_text)


def eval_script(source: str, arguments: Sequence[Argument]) -> Command[list[Reply]]:
    """EVAL of a script that takes no keys and returns a list; the server caches the script."""
    return Command(("EVAL", source, 0, *arguments), as_list)


def evalsha(digest: str, arguments: Sequence[Argument]) -> Command[list[Reply]]:
    """EVALSHA of a script that takes no keys and returns a list."""
    return Command(("EVALSHA", digest, 0, *arguments), as_list)


def asking() -> Command[None]:
    """ASKING: the next command may touch a slot that is being imported."""
    return Command(("ASKING",), as_ok)


def dump(key: bytes) -> Command[bytes | None]:
    """DUMP: a key's value in the format of RESTORE; None when there is no such key."""
    return Command(("DUMP", key), as_optional_bytes)


def unlink(key: bytes) -> Command[int]:
    """UNLINK: remove a key; returns whether it existed."""
    return Command(("UNLINK", key), as_integer)


def evalsha_ro(digest: str, arguments: Sequence[Argument]) -> Command[list[Reply]]:
    """EVALSHA_RO (Redis 7) of a script that takes no keys, only reads, and returns a list."""
    return Command(("EVALSHA_RO", digest, 0, *arguments), as_list)


def migrate_slots(slots: SlotSet, target_id: str) -> Command[None]:
    """CLUSTER MIGRATESLOTS (Valkey 9), on the source. OK means started: see `slot_migrations`."""
    bounds = [bound for pair in slots.ranges() for bound in pair]
    return Command(("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", *bounds, "NODE", target_id), as_ok)


def slot_migrations() -> Command[tuple[MigrationJob, ...]]:
    """CLUSTER GETSLOTMIGRATIONS (Valkey 9)."""
    return Command(("CLUSTER", "GETSLOTMIGRATIONS"), parse_migrations)


def cancel_slot_migrations() -> Command[None]:
    """CLUSTER CANCELSLOTMIGRATIONS (Valkey 9), on the source: every running job rolls back."""
    return Command(("CLUSTER", "CANCELSLOTMIGRATIONS"), as_ok)


def migration_import(slots: SlotSet) -> Command[str]:
    """CLUSTER MIGRATION IMPORT (Redis 8.4), on the target; all slots have one owner. Returns the
    task."""
    bounds = [bound for pair in slots.ranges() for bound in pair]
    return Command(("CLUSTER", "MIGRATION", "IMPORT", *bounds), as_text)


def migration_status() -> Command[tuple[MigrationJob, ...]]:
    """CLUSTER MIGRATION STATUS ALL (Redis 8.4)."""
    return Command(("CLUSTER", "MIGRATION", "STATUS", "ALL"), parse_migrations)


def cancel_migration() -> Command[int]:
    """CLUSTER MIGRATION CANCEL ALL (Redis 8.4), on the target: how many tasks were cancelled."""
    return Command(("CLUSTER", "MIGRATION", "CANCEL", "ALL"), as_integer)
