"""Passwords of a database, as tables: how they are read, made, changed and forgotten."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from redis_operator.manifests.facts import Former, Passwords, Rotation, RotationStage
from redis_operator.manifests.record import RECORD_KEY, record
from redis_operator.operator.passwords import (
    PasswordError,
    PasswordMemory,
    advanced,
    created,
    generated,
    newest,
    outlived,
    read_password,
    wished,
)

KNOWN = Passwords("d", "o", "r", "e", "a", serial=7)
USERS = ("operator", "replication", "exporter", "admin")


def accepting(**others: str) -> Passwords:
    return replace(KNOWN, rotation=Rotation(RotationStage.ACCEPT, others))


def using(**others: str) -> Passwords:
    return replace(KNOWN, rotation=Rotation(RotationStage.USE, others))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "Secret s has no key password, or it is empty"),
        ({}, "Secret s has no key password, or it is empty"),
        ({"password": b""}, "Secret s has no key password, or it is empty"),
        ({"password": b"x\n"}, "Secret s key password has a line end"),
        ({"password": b"x" * 513}, "longer than 512 bytes"),
        ({"password": b"x" * 512}, ""),
    ],
)
def test_a_password_is_read_or_it_is_said_what_is_wrong(data: Any, words: str) -> None:
    if not words:
        assert read_password(data, secret="s") == "x" * 512
        return
    with pytest.raises(PasswordError, match=words):
        read_password(data, secret="s")


def test_first_passwords_are_new_and_of_their_own() -> None:
    found = created("given")
    own = [getattr(found, user) for user in (*USERS, "sentinel")]
    assert len({*own, "given"}) == 6
    assert all(len(word) == len(generated()) == 32 for word in own)
    assert (found.default, found.backup, found.marked, found.serial) == ("given", "", "", 1)
    assert created("given", marked="m").marked == "m"


def test_a_secret_without_a_record_says_what_servers_know() -> None:
    data = {"operator": b"one", "exporter": b"", "admin": b"two"}
    found = created("given", data)
    assert found.operator == "one"
    assert found.exporter
    assert found.admin != "two"  # such Secrets never had it


def test_the_newest_record_counts() -> None:
    def kept(serial: int, **fields: str) -> dict[str, bytes]:
        return {RECORD_KEY: record(replace(KNOWN, serial=serial, **fields)).encode()}

    assert newest(None) is None
    assert newest(None, None, {}) is None
    assert newest(KNOWN, None) == KNOWN
    found = newest(KNOWN, kept(8), kept(6))
    assert found is not None
    assert found.serial == 8
    tie = newest(KNOWN, kept(7, admin="other"))
    assert tie is not None
    assert tie.admin == "other"
    assert newest(KNOWN, kept(6)) == KNOWN


WISHES: dict[str, tuple[Passwords, str, str, dict[str, str] | None, int]] = {
    "nothing": (KNOWN, "d", "", None, 7),
    "another default": (KNOWN, "x", "", {"default": "x"}, 8),
    "taken back": (accepting(default="x"), "d", "", None, 8),
    "the same again": (accepting(default="x"), "x", "", {"default": "x"}, 7),
    "another one": (accepting(default="x"), "y", "", {"default": "y"}, 8),
    "another one beside others": (
        accepting(default="x", admin="n"),
        "y",
        "",
        {"admin": "n", "default": "y"},
        8,
    ),
    "others go on": (accepting(default="x", admin="n"), "d", "", {"admin": "n"}, 8),
    "too late": (using(default="c"), "y", "", {"default": "c"}, 7),
}


@pytest.mark.parametrize("row", WISHES)
def test_a_wish_begins_a_change_or_waits(row: str) -> None:
    known, default, marked, others, serial = WISHES[row]
    found = wished(known, default, marked)
    assert (found.wished, found.serial) == (default, serial)
    assert (dict(found.rotation.others) if found.rotation is not None else None) == others
    assert (found.default, found.marked) == ("d", "")


def test_a_mark_asks_for_new_passwords_of_our_users_once() -> None:
    found = wished(KNOWN, "d", "m")
    assert found.rotation is not None
    assert sorted(found.rotation.others) == sorted(USERS)
    assert (found.marked, found.serial) == ("m", 8)
    assert wished(replace(KNOWN, marked="m"), "d", "m").rotation is None
    both = wished(replace(KNOWN, backup="b", sentinel="s"), "x", "m")
    assert both.rotation is not None
    assert sorted(both.rotation.others) == sorted((*USERS, "backup", "default", "sentinel"))
    unmarked = wished(replace(KNOWN, marked="m"), "x", "")
    assert unmarked.marked == "m"


def test_a_change_goes_one_stage_further() -> None:
    first = advanced(accepting(default="x", admin="n"), now=100.0)
    assert (first.default, first.admin, first.operator, first.serial) == ("x", "n", "o", 8)
    assert first.rotation == Rotation(RotationStage.USE, {"default": "d", "admin": "a"})
    last = advanced(first, now=100.0)
    assert (last.rotation, last.serial, last.default) == (None, 9, "x")
    assert (last.exporter_before, last.exporter_earlier) == ("", ())


def test_passwords_of_the_exporter_stay_valid() -> None:
    once = advanced(using(exporter="old"), now=100.5)
    assert (once.exporter_before, once.exporter_earlier) == ("old", ())
    again = replace(once, rotation=Rotation(RotationStage.USE, {"exporter": "next"}))
    twice = advanced(again, now=200.5)
    assert (twice.exporter_before, twice.exporter_earlier) == ("next", (Former("old", 200),))


@pytest.mark.parametrize(("oldest", "stays"), [(799.0, True), (800.0, True), (801.0, False)])
def test_a_password_that_no_pod_can_have_started_with_is_forgotten(
    oldest: float, *, stays: bool
) -> None:
    known = replace(KNOWN, exporter_earlier=(Former("one", 200), Former("two", 900)))
    found = outlived(known, oldest)
    assert [former.password for former in found.exporter_earlier] == ["one", "two"][not stays :]
    assert found.serial == (7 if stays else 8)


def test_what_is_remembered_is_forgotten_with_its_database() -> None:
    memory = PasswordMemory()
    assert memory.get("u") is None
    memory.keep("u", KNOWN)
    memory.keep("v", KNOWN)
    memory.forget("u")
    memory.forget("unknown")
    assert (memory.get("u"), memory.get("v")) == (None, KNOWN)
