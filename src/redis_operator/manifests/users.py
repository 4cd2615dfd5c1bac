"""ACL users with the least rights, and the files that servers read them from. Pure.

| user | who | may |
|---|---|---|
| default | applications | everything but what changes topology, users or the server itself |
| operator | the operator | observe, form and repair the cluster, move slots; no reads or writes |
| replication | servers among themselves | copy, take over, receive the keys of a migrating slot |
| exporter | probes and the metrics exporter | observe |
| admin | administrators of the data | everything that does not conflict with the operator |
| backup | workers of backups and archives, once there is one | replicate the data, pause writes |
| sentinel | sentinels, on servers and among themselves | monitor, promote and demote |

Redis 6 checks no subcommand names and cannot remove one; later versions refuse unknown ones. So
there are two formats, and a server reads the one of its version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Final

from redis_operator.backup.task import CUT_CHANNEL
from redis_operator.redis.versions import Ability, Version, can

from .facts import Passwords

__all__ = [
    "ADMIN",
    "BACKUP",
    "BACKUP_RULES",
    "DEFAULT",
    "EXPORTER",
    "FAILOVER_USERS",
    "OPERATOR",
    "REPLICATION",
    "SENTINEL",
    "SENTINEL_USERS",
    "STANDALONE_USERS",
    "USERS",
    "acl_file",
    "acl_file_name",
    "is_shut_out",
    "password_hash",
    "replication_file",
    "rules_of",
    "sentinel_acl_file_name",
    "sentinel_file",
]

DEFAULT = "default"
ADMIN = "admin"
OPERATOR = "operator"
REPLICATION = "replication"
EXPORTER = "exporter"
BACKUP = "backup"
SENTINEL = "sentinel"

_CLUSTER_LOOK = ("info", "nodes", "slots", "shards", "myid", "keyslot", "countkeysinslot")
# What changes topology, users or the server itself; the rest of these categories is allowed.
_DEFAULT = "~* &* +@all -@admin -@dangerous +info +sort +keys +flushall +flushdb +role +lastsave"
_DEFAULT_PARTS = (
    *("config|get", "slowlog|get", "slowlog|len", "slowlog|reset", "client|list", "client|info"),
    *("latency|latest", "latency|history", "latency|reset", "latency|doctor", "memory|doctor"),
)
_DEFAULT_PARTS_7 = ("latency|histogram", "latency|graph", "slowlog|help", "config|help")
_DEFAULT_CLIENT_6 = ("setname", "getname", "id", "info", "tracking", "caching", "reply", "list")
# Beside that: settings that are not kept, connections of others, snapshots, what clients send.
_ADMIN = "+monitor +bgsave +bgrewriteaof +acl|whoami +acl|list +acl|getuser +acl|cat"
_ADMIN_PARTS = ("config|resetstat", "client|kill", "client|pause", "client|unpause")
_ADMIN_PARTS_7 = ("acl|log", "client|no-evict", "function|kill", "script|kill", "memory|purge")
_OPERATOR = (
    "~* &* -@all +ping +info +role +wait +dbsize +multi +exec +discard +asking +acl +client "
    "+command +select +time +evalsha +memory +migrate +type +dump +unlink +bgsave +lastsave "
    "+shutdown +latency +readonly +readwrite +config|get +config|set +script|load +script|exists"
)
_OPERATOR_CLUSTER_6 = (
    "addslots bumpepoch count-failure-reports countkeysinslot delslots failover forget "
    "getkeysinslot info meet myid nodes replicate reset set-config-epoch setslot slots"
)
_REPLICATION = (
    "~* &* -@all +psync +sync +replconf +ping +select +restore +restore-asking +cluster|failover"
)
# Commands of probes and redis_exporter, from the commandstats and ACL LOG of its versions; all else
# that it can be configured to read are keys.
_EXPORTER = (
    "-@all +ping +info +config|get +slowlog|get +slowlog|len +latency|latest "
    "+client|list +client|setname +cluster|info +cluster|nodes"
)

# Also needed while a database is filled from a backup; the worker logs in as `replication`.
_FILLING = "+info +set"
_FILLING_FUNCTIONS = "+function|restore"
# And while a worker replaces the data of a database in use. The operator itself cannot do that.
_EMPTYING = "+flushall"
_EMPTYING_FUNCTIONS = "+function|flush"

BACKUP_RULES = (
    "-@all +psync +replconf +ping +role +client|pause +client|unpause "
    f"resetchannels &{CUT_CHANNEL} +publish "
    "+info +multi +exec +time +cluster|nodes"
)
"""The snapshot and the stream, and (for all shards at one moment) a pause of writes, and its check.

The last line is for archives: the offset, history, time and slots of a server.
"""

# Without slots there is nothing to move, and replication is changed from outside.
_FAILOVER_OPERATOR = (
    "&* -@all +ping +info +role +wait +dbsize +multi +exec +discard +acl +client +command +time "
    "+memory +bgsave +lastsave +shutdown +latency +config|get +config|set +replicaof +slaveof"
)
_SENTINEL_ON_SERVER = (
    "&* -@all +multi +exec +slaveof +replicaof +ping +subscribe +publish +info +role "
    "+config|rewrite +client|setname +client|kill +script|kill"
)
# On sentinels. They have few commands, and a rule about a command that they do not have keeps them
# from starting.
_DEFAULT_ON_SENTINEL = (
    "&* -@all +ping +info +role +command +subscribe +unsubscribe +psubscribe +punsubscribe "
    "+client|setname +client|getname +client|id +client|list "
    "+sentinel|get-master-addr-by-name +sentinel|master +sentinel|masters +sentinel|replicas "
    "+sentinel|slaves +sentinel|sentinels +sentinel|ckquorum +sentinel|myid"
)
_OPERATOR_ON_SENTINEL = (
    "&* -@all +ping +info +role +sentinel +acl +client +command +subscribe +publish"
)
_PEER_ON_SENTINEL = (
    "&* -@all +ping +info +publish +subscribe +client|setname +sentinel|is-master-down-by-addr"
)
# Not SENTINEL CONFIG GET: it shows the password with which sentinels log in to each other.
_EXPORTER_ON_SENTINEL = (
    "&* -@all +ping +info +role +client|setname +sentinel|masters +sentinel|master "
    "+sentinel|replicas +sentinel|slaves +sentinel|sentinels +sentinel|ckquorum "
    "+sentinel|get-master-addr-by-name"
)


def _is_old(version: Version) -> bool:
    return version.engine == "redis" and version.major < 7


def _default_rules(version: Version) -> str:
    rules = [_DEFAULT, *(f"+cluster|{word}" for word in _CLUSTER_LOOK)]
    rules += [f"+{part}" for part in _DEFAULT_PARTS]
    if _is_old(version):
        rules += [f"+client|{word}" for word in _DEFAULT_CLIENT_6]
    else:
        rules += [f"+{part}" for part in _DEFAULT_PARTS_7]
    return " ".join(rules)


def _admin_rules(version: Version) -> str:
    parts = _ADMIN_PARTS if _is_old(version) else (*_ADMIN_PARTS, *_ADMIN_PARTS_7)
    return " ".join([_default_rules(version), _ADMIN, *(f"+{part}" for part in parts)])


def _operator_rules(version: Version) -> str:
    if _is_old(version):
        return " ".join(
            [_OPERATOR, "+eval", *(f"+cluster|{w}" for w in _OPERATOR_CLUSTER_6.split())]
        )
    return f"{_OPERATOR} +evalsha_ro +cluster -cluster|flushslots -cluster|saveconfig"


def _replication_rules(version: Version) -> str:
    if can(version, Ability.MIGRATESLOTS):
        # A server sends the content of migrating slots as write commands.
        return f"{_REPLICATION} +@write -flushall -flushdb +multi +exec +cluster|syncslots"
    return _REPLICATION


def _exporter_rules(version: Version) -> str:
    rules = [_EXPORTER]
    if not _is_old(version):
        rules.append("+latency|histogram")
    if can(version, Ability.COMMANDLOG):
        rules.append("+commandlog|len")
    return " ".join(rules)


def acl_file_name(version: Version) -> str:
    """The file that servers of this version read: rules differ where commands do."""
    return f"{version.engine}-{version.major}.{version.minor}.acl"


USERS: Final[Mapping[str, Callable[[Version], str]]] = {
    DEFAULT: _default_rules,
    OPERATOR: _operator_rules,
    REPLICATION: _replication_rules,
    EXPORTER: _exporter_rules,
    ADMIN: _admin_rules,
    BACKUP: lambda _: BACKUP_RULES,
}
"""Return every user of a server, with its rules: those that have a password."""

STANDALONE_USERS: Final[Mapping[str, Callable[[Version], str]]] = {
    **USERS,
    OPERATOR: lambda _: _FAILOVER_OPERATOR,
}
"""The users of a server in mode Standalone, which may change to mode Failover."""

FAILOVER_USERS: Final[Mapping[str, Callable[[Version], str]]] = {
    **STANDALONE_USERS,
    SENTINEL: lambda _: _SENTINEL_ON_SERVER,
}
"""The users of a server in mode Failover."""


SENTINEL_USERS: Final[Mapping[str, Callable[[Version], str]]] = {
    DEFAULT: lambda _: _DEFAULT_ON_SENTINEL,
    OPERATOR: lambda _: _OPERATOR_ON_SENTINEL,
    SENTINEL: lambda _: _PEER_ON_SENTINEL,
    EXPORTER: lambda _: _EXPORTER_ON_SENTINEL,
}
"""The users of a sentinel."""


def password_hash(password: str) -> str:
    """Return a password as servers store it."""
    return f"#{hashlib.sha256(password.encode()).hexdigest()}"


def is_shut_out(user: str) -> bool:
    """Whether a user may not log in while a database is filled from a backup: it could write."""
    return user in (DEFAULT, ADMIN)


def rules_of(
    user: str,
    version: Version,
    passwords: Passwords,
    users: Mapping[str, Callable[[Version], str]] = USERS,
    *,
    filling: bool = False,
    emptying: bool = False,
) -> str:
    """Return the definition of a user, with both passwords while they change.

    While a database is filled from a backup, users that could write are disabled, and the worker
    may load functions and read keys; where it is `emptying`, it may also drop the old data.
    """
    accepted = " ".join(map(password_hash, passwords.accepted(user)))
    rules = users[user](version)
    if filling and user == REPLICATION:
        added = [_FILLING] if _is_old(version) else [_FILLING, _FILLING_FUNCTIONS]
        if emptying:
            added += [_EMPTYING] if _is_old(version) else [_EMPTYING, _EMPTYING_FUNCTIONS]
        rules = " ".join([rules, *added])
    state = "off" if filling and is_shut_out(user) else "on"
    return f"{state} sanitize-payload {accepted} {rules}"


def acl_file(
    version: Version,
    passwords: Passwords,
    users: Mapping[str, Callable[[Version], str]] = USERS,
    *,
    filling: bool = False,
    emptying: bool = False,
) -> str:
    """Return the ACL file of a server. Passwords are hashed, so the file alone grants no access."""
    lines = [
        f"user {name} {rules}"
        for name in users
        if passwords.has(name)
        and (rules := rules_of(name, version, passwords, users, filling=filling, emptying=emptying))
    ]
    return "\n".join(lines) + "\n"


def sentinel_acl_file_name(version: Version) -> str:
    """The file that sentinels of this version read."""
    return f"sentinel-{acl_file_name(version)}"


def sentinel_file(passwords: Passwords) -> str:
    """Return the login of a sentinel at the others; part of its configuration."""
    return f'sentinel sentinel-user {SENTINEL}\nsentinel sentinel-pass "{passwords.sentinel}"\n'


def replication_file(passwords: Passwords) -> str:
    """Return the login of a server at its primary; included by its configuration."""
    return f'masteruser {REPLICATION}\nmasterauth "{passwords.replication}"\n'
