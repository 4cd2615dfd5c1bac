"""The users of a simulated server: which passwords it accepts, as hashes, and how that changes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, MutableMapping, Sequence

import hiredis

from redis_operator.redis.resp import Reply

__all__ = ["Users", "accepts", "answer_acl", "lets_clients_in", "read_users"]

Users = MutableMapping[str, tuple[str, ...]]
"""The hashes that a server accepts, by user; with the word `off` the user may not log in."""
_OFF = "off"


def read_users(file: str) -> dict[str, tuple[str, ...]]:
    """Read the file that a server has its users from."""
    found = {}
    for line in file.splitlines():
        _, name, *rules = line.split()
        found[name] = tuple(rule for rule in rules if rule.startswith("#") or rule == _OFF)
    return found


def accepts(users: Mapping[str, Sequence[str]], name: str, password: str) -> bool:
    """Return whether a user can log in to a server."""
    known = users.get(name, ())
    return f"#{hashlib.sha256(password.encode()).hexdigest()}" in known and _OFF not in known


def lets_clients_in(users: Mapping[str, Sequence[str]]) -> bool:
    """Return whether applications may log in to a server."""
    return _OFF not in users.get("default", ())


def answer_acl(users: Users, words: Sequence[str], file: Callable[[], str]) -> Reply:
    """Answer ACL: DRYRUN allows everything, SETUSER knows passwords and who is off, LIST shows
    them.

    LOAD reads the `file` of the server again.
    """
    match words[1].upper():
        case "DRYRUN":
            return b"OK"
        case "LIST":
            return [_line(name, found).encode() for name, found in users.items()]
        case "LOAD":
            loaded = read_users(file())
            users.clear()
            users.update(loaded)
            return b"OK"
        case "SETUSER":
            known = users.get(words[2], ())
            found = tuple(w for w in known if w == _OFF) if "resetpass" in words else known
            told = {*words[3:]} & {"on", _OFF}
            found = tuple(word for word in found if word != _OFF or "on" not in told)
            added = (word for word in words[3:] if word.startswith("#") or word == _OFF)
            users[words[2]] = tuple(dict.fromkeys([*found, *added]))
            return b"OK"
    return hiredis.ReplyError(f"ERR unknown subcommand '{words[1]}'")


def _line(name: str, found: Sequence[str]) -> str:
    state = _OFF if _OFF in found else "on"
    hashes = " ".join(word for word in found if word != _OFF)
    return f"user {name} {state} {hashes} ~* +@all"
