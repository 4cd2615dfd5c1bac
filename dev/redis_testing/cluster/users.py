"""The users of a simulated server: which passwords it accepts, as hashes, and how that changes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, MutableMapping, Sequence

import hiredis

from redis_operator.redis.resp import Reply

__all__ = ["Users", "accepts", "answer_acl", "read_users"]

Users = MutableMapping[str, tuple[str, ...]]
"""The hashes that a server accepts, by user."""


def read_users(file: str) -> dict[str, tuple[str, ...]]:
    """Read the file that a server has its users from."""
    found = {}
    for line in file.splitlines():
        _, name, *rules = line.split()
        found[name] = tuple(rule for rule in rules if rule.startswith("#"))
    return found


def accepts(users: Mapping[str, Sequence[str]], name: str, password: str) -> bool:
    """Tell whether a server lets a user in."""
    return f"#{hashlib.sha256(password.encode()).hexdigest()}" in users.get(name, ())


def answer_acl(users: Users, words: Sequence[str]) -> Reply:
    """Answer ACL: DRYRUN allows everything, SETUSER knows passwords, LIST tells them."""
    match words[1].upper():
        case "DRYRUN":
            return b"OK"
        case "LIST":
            lines = (f"user {name} on {' '.join(found)} ~* +@all" for name, found in users.items())
            return [line.encode() for line in lines]
        case "SETUSER":
            found = () if "resetpass" in words else users.get(words[2], ())
            added = (word for word in words[3:] if word.startswith("#"))
            users[words[2]] = tuple(dict.fromkeys([*found, *added]))
            return b"OK"
    return hiredis.ReplyError(f"ERR unknown subcommand '{words[1]}'")
