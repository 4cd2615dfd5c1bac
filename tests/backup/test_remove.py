"""A backup that is deleted from its store leaves nothing, and others stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from redis_operator.backup.errors import StoreError
from redis_operator.backup.manifest import MANIFEST
from redis_operator.backup.store import open_shelf
from redis_operator.backup.task import Store


async def test_the_whole_folder_goes_and_its_neighbour_stays(tmp_path: Path) -> None:
    ours = open_shelf(Store("ns/cache/monday"), folder=str(tmp_path))
    other = open_shelf(Store("ns/cache/monday-2"), folder=str(tmp_path))
    for shelf in (ours, other):
        await shelf.create("server-0-1.rdb.zst", b"part")
        await shelf.create(MANIFEST, b"{}")
    (tmp_path / "ns/cache/monday/server-0-2.rdb.zst#1").write_bytes(b"never ended")
    await ours.remove(first=MANIFEST)
    assert not (tmp_path / "ns/cache/monday").exists()
    assert await other.get(MANIFEST) == b"{}"
    # whoever died in between is followed by another one
    again = open_shelf(Store("ns/cache/monday"), folder=str(tmp_path))
    await again.remove(first=MANIFEST)
    assert not (tmp_path / "ns/cache/monday").exists()


async def test_what_cannot_be_deleted_is_named(tmp_path: Path) -> None:
    shelf = open_shelf(Store("ns/cache/monday"), folder=str(tmp_path))
    (tmp_path / "ns/cache/monday" / MANIFEST).mkdir()  # not a file
    with pytest.raises(StoreError, match="ns/cache/monday"):
        await shelf.remove(first=MANIFEST)
