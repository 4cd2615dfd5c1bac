"""Backups that are encrypted: whoever changes a byte of them, or has another key, gets nothing."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from backup.conftest import LOGIN, fill, source, task
from backup.test_check import checked
from redis_operator.backup.errors import Damaged, KeyMissing
from redis_operator.backup.manifest import MANIFEST
from redis_operator.backup.primary import find_part, manifest_of, verify
from redis_operator.backup.seal import Keyring, Seal
from redis_operator.backup.store import Shelf, open_shelf
from redis_operator.backup.take import take
from redis_operator.backup.task import Encryption, Store, TakeTask
from redis_testing.servers import EngineBinary
from support.pair_of_servers import speak

MIB = 1 << 20


def secret(folder: Path, **keys: str) -> Path:
    """Write a Secret as a pod sees it."""
    folder.mkdir(exist_ok=True)
    for name, value in keys.items():
        (folder / name).write_text(value)
    return folder


def new_key() -> str:
    return b64encode(os.urandom(32)).decode() + "\n"


async def pieces(content: bytes, size: int = 100_000) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


async def gathered(found: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in found])


@pytest.fixture
def seal(tmp_path: Path) -> Seal:
    return Seal(Keyring("words", secret(tmp_path / "keys", first=new_key())), "")


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, MIB + 1, 3 * MIB, 3 * MIB + 7])
@pytest.mark.parametrize("step", [7_919, MIB])
async def test_what_was_encrypted_comes_back(seal: Seal, size: int, step: int) -> None:
    content = os.urandom(size)
    made = await gathered(seal.sealed("part", pieces(content)))
    assert content[:100] not in made or size < 4
    assert await gathered(seal.opened("part", pieces(made, step))) == content


async def test_every_kind_of_damage_is_noticed(seal: Seal) -> None:
    content = os.urandom(3 * MIB + 100)
    made = await gathered(seal.sealed("part", pieces(content)))
    head = len(made) - (3 * (MIB + 16) + 116)
    chunk = MIB + 16
    chunks = [made[head + n * chunk : head + (n + 1) * chunk] for n in range(4)]
    start = made[:head]
    flipped = bytearray(made)
    flipped[head + 2 * chunk + 5] ^= 1
    for damaged in (
        bytes(flipped),
        made[:-1],
        made[: head + 3 * chunk],  # without the last chunk
        made[: head + 1 * chunk],
        made[:head],
        made[: head // 2],
        b"",
        start + chunks[1] + chunks[0] + chunks[2] + chunks[3],  # in another order
        start + chunks[0] + chunks[0] + chunks[2] + chunks[3],  # one twice
        start + chunks[0] + chunks[2] + chunks[3],  # one missing
        made + made[head:],
        start[:-1] + bytes([start[-1] ^ 1]) + made[head:],  # another salt
        content,  # as if never encrypted
    ):
        with pytest.raises(Damaged, match="part is damaged"):
            await gathered(seal.opened("part", pieces(damaged)))
    with pytest.raises(Damaged, match="other is damaged"):  # under another name
        await gathered(seal.opened("other", pieces(made)))


async def test_keys_that_are_missing_or_are_none_are_named_with_their_secret(
    tmp_path: Path,
) -> None:
    def refusal(wanted: str = "", **keys: str) -> str:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        with pytest.raises(KeyMissing) as told:
            Seal(Keyring("words", secret(folder, **keys)), wanted).sealing()
        text = str(told.value)
        assert "words" in text
        assert not any(value.strip() in text for value in keys.values() if len(value) > 10)
        return text

    assert "does not exist or has no key" in refusal()
    assert "has no key third; it has first" in refusal("third", first=new_key())
    assert "has no key third" in refusal(current="third", first=new_key())
    assert "first, second" in refusal(first=new_key(), second=new_key())
    assert "key first of Secret words is not 32 bytes" in refusal(first="c2hvcnQ=")
    assert "key first of Secret words is not 32 bytes" in refusal(first="not base64 at all !!")
    assert "has no key ../x" in refusal("../x", first=new_key())


def asked(found: TakeTask, key_id: str = "") -> TakeTask:
    store = Store(found.store.path, encryption=Encryption("words", key_id))
    return msgspec.structs.replace(found, store=store)


def shelf_of(folder: Path, keys: Path, key_id: str = "") -> Shelf:
    store = Store("ns/cache/monday", encryption=Encryption("words", key_id))
    return open_shelf(store, folder=str(folder), encryption=str(keys))


@pytest.mark.servers
async def test_a_backup_stays_readable_when_another_key_is_current(
    engine: EngineBinary, tmp_path: Path
) -> None:
    keys = secret(tmp_path / "keys", old=new_key())
    async with source(engine) as full:
        await fill(full)
        await speak(full, ("SET", "name", "a-word-to-find" * 50))
        shelf = shelf_of(tmp_path / "store", keys)
        manifest = await take(asked(task(full)), shelf, lambda: LOGIN)
        again = await take(asked(task(full, attempt="two")), shelf, lambda: LOGIN)
        assert again == manifest
    assert manifest.encryption is not None
    assert manifest.encryption.key_id == "old"
    [part] = manifest.parts
    stored = (tmp_path / "store/ns/cache/monday" / part.object).read_bytes()
    assert b"a-word-to-find" not in stored
    assert not stored.startswith(b"\x28\xb5\x2f\xfd")  # a zstd frame

    secret(keys, new=new_key(), current="new")
    later = shelf_of(tmp_path / "store", keys)
    assert await find_part(later) == (manifest, part)
    await verify(later, part)
    report = await checked(engine, later, tmp_path / "scratch")
    assert report.keys > 20_000
    (keys / "old").unlink()
    with pytest.raises(KeyMissing, match=r"Secret words .* has no key old; it has new"):
        await find_part(later)
    (keys / "old").write_text(new_key())
    with pytest.raises(Damaged, match="key old of Secret words is not the one"):
        await find_part(later)


@pytest.mark.servers
async def test_a_manifest_that_was_changed_or_put_in_place_of_another_is_refused(
    engine: EngineBinary, tmp_path: Path
) -> None:
    keys = secret(tmp_path / "keys", only=new_key())
    async with source(engine) as full:
        await speak(full, ("SET", "a", "1"))
        shelf = shelf_of(tmp_path / "store", keys)
        await take(asked(task(full)), shelf, lambda: LOGIN)
        plain = open_shelf(Store("plain"), folder=str(tmp_path / "store"))
        await take(task(full), plain, lambda: LOGIN)
    path = tmp_path / "store/ns/cache/monday" / MANIFEST
    raw = path.read_bytes()
    without_key = open_shelf(Store("ns/cache/monday"), folder=str(tmp_path / "store"))
    with pytest.raises(KeyMissing, match=r"encrypted with key only.*spec\.encryption"):
        await manifest_of(without_key)
    for changed in (
        raw.replace(b'"cache"', b'"other"'),
        raw.replace(b'"mac": "', b'"mac": "0'),
        raw.replace(b'"mac": "', '"mac": "\u00e9'.encode()),
        (tmp_path / "store/plain" / MANIFEST).read_bytes(),
    ):
        assert changed != raw
        path.write_bytes(changed)
        with pytest.raises(Damaged, match=MANIFEST):
            await manifest_of(shelf)
    path.write_bytes(raw)
    assert (await manifest_of(shelf)).redis == "cache"
