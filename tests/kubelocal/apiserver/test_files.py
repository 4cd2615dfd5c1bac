"""Who may read what the server keeps: its owner alone, whatever the umask is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubelocal.apiserver.daemon import Daemon
from kubelocal.instance import Instance, Settings


@pytest.fixture(autouse=True)
def open_to_all() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def modes(folder: Path, *patterns: str) -> dict[str, int]:
    return {path.name: mode(path) for pattern in patterns for path in folder.glob(pattern)}


async def test_keys_and_state_are_for_their_owner_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    daemon = Daemon(data)
    await daemon.start()
    daemon.kubeconfig()
    try:
        assert mode(data) == mode(data / "pki") == 0o700
        private = modes(data, "state.db*", "pki/*.key")
        assert {"state.db", "state.db-wal", "ca.key", "tokens.key", "admin.key"} <= set(private)
        assert set(private.values()) == {0o600}
    finally:
        await daemon.stop()


@pytest.fixture
def old_folder(tmp_path: Path) -> Path:
    (tmp_path / "pki").mkdir(mode=0o755)
    (tmp_path / "state.db").touch(mode=0o644)
    tmp_path.chmod(0o755)
    return tmp_path


async def test_a_folder_that_was_there_keeps_its_mode_and_hides_what_is_made_in_it(
    old_folder: Path,
) -> None:
    daemon = Daemon(old_folder)
    await daemon.start()
    try:
        assert mode(old_folder) == 0o755
        assert mode(old_folder / "pki") == 0o700
        assert set(modes(old_folder, "state.db*").values()) == {0o600}
    finally:
        await daemon.stop()


def test_the_folder_of_an_instance_is_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "one"
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    Instance("one", folder).save(Settings(network=20))
    assert mode(folder) == 0o700
