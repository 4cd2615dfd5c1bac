"""Secrets: the generated password, the operator's users, and the connection details. Pure.

Passwords are facts of the caller. They are read again from these Secrets, so an operator that is
lost does not lose passwords.
"""

from __future__ import annotations

from urllib.parse import quote

from redis_operator.api.redis import Engine, Redis

from . import names
from .facts import Facts
from .layouts import layout_of
from .objects import Object, encode_data, make
from .record import RECORD_KEY, record
from .users import (
    ADMIN,
    BACKUP,
    EXPORTER,
    OPERATOR,
    REPLICATION,
    SENTINEL,
    SENTINEL_USERS,
    acl_file,
    acl_file_name,
    replication_file,
    sentinel_acl_file_name,
    sentinel_file,
)

__all__ = ["PASSWORD_KEY", "password_limitation", "secrets"]

PASSWORD_KEY = "password"  # noqa: S105 - the name of a key, not a password


def password_limitation(raw: bytes | None, key: str = PASSWORD_KEY) -> str | None:
    """Why the content of a Secret cannot be a password, or None.

    A line end is refused rather than removed: if one reader removed it and another did not, a
    client could not log in.
    """
    if not raw:
        return f"has no key {key}, or it is empty"
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return f"key {key} is not text"
    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
        return f"key {key} has a line end or another control character; remove it"
    if len(raw) > 512:
        return f"key {key} is longer than 512 bytes"
    return None


def secrets(redis: Redis, facts: Facts) -> list[Object]:
    """Return every Secret of a database; that of the default user unless the user provides it."""
    name, passwords = redis.metadata.name, facts.passwords
    kept = {RECORD_KEY: record(passwords)}
    found = [
        _secret(redis, names.recovery_secret(name), kept),
        _users(redis, facts),
        _secret(
            redis,
            names.admin_secret(name),
            {"username": ADMIN, PASSWORD_KEY: passwords.admin},
        ),
        _connection(redis, facts),
    ]
    if not redis.spec.auth.secret_name:
        values = {"username": "default", PASSWORD_KEY: passwords.wished or passwords.default}
        found.append(_secret(redis, names.auth_secret(name), values))
    return found


def _secret(redis: Redis, name: str, values: dict[str, str]) -> Object:
    return make(redis, "Secret", name, {"type": "Opaque", "data": encode_data(values)})


def _users(redis: Redis, facts: Facts) -> Object:
    passwords = facts.passwords
    values = {
        OPERATOR: passwords.operator,
        REPLICATION: passwords.replication,
        EXPORTER: passwords.exporter,
        "replication.conf": replication_file(passwords),
        RECORD_KEY: record(passwords),
    }
    if passwords.backup:
        values[BACKUP] = passwords.backup
    layout = layout_of(redis)
    versions = sorted({facts.version, *facts.running})
    for version in versions:
        values[acl_file_name(version)] = acl_file(
            version,
            passwords,
            layout.users,
            filling=facts.is_closed,
            emptying=facts.is_emptied,
        )
    if layout.sentinels is not None:
        values |= {SENTINEL: passwords.sentinel, "sentinel.conf": sentinel_file(passwords)}
        for version in versions:
            name = sentinel_acl_file_name(version)
            values[name] = acl_file(version, passwords, SENTINEL_USERS)
    return _secret(redis, names.users_secret(redis.metadata.name), values)


def _connection(redis: Redis, facts: Facts) -> Object:
    name, namespace = redis.metadata.name, redis.metadata.namespace
    password = facts.passwords.default
    host = facts.client_address or f"{names.client_service(name)}.{namespace}.svc"
    values = {
        "type": "redis",
        "provider": "valkey" if redis.spec.engine is Engine.VALKEY else "redis",
        "host": host,
        "port": str(names.CLIENT_PORT),
        "username": "default",
        "password": password,
        "uri": f"redis://default:{quote(password, safe='')}@{host}:{names.CLIENT_PORT}",
        **layout_of(redis).binding,
        **_sentinels(redis, facts),
    }
    body = {"type": "servicebinding.io/redis", "data": encode_data(values)}
    return make(redis, "Secret", names.connection_secret(name), body)


def _sentinels(redis: Redis, facts: Facts) -> dict[str, str]:
    """Return the settings of the sentinels for clients; empty where there are none."""
    sentinels = layout_of(redis).sentinels
    if sentinels is None:
        return {}
    name, namespace = redis.metadata.name, redis.metadata.namespace
    return {
        "sentinel-host": facts.sentinel_address
        or f"{names.sentinel_service(name)}.{namespace}.svc",
        "sentinel-port": str(sentinels.port.number),
        "sentinel-primary": names.primary_name(namespace, name),
    }
