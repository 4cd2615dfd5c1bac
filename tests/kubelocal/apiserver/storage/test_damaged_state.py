"""A state file that is damaged, empty or gone: its copy takes its place, or nothing is started."""

from __future__ import annotations

import contextlib
import logging
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from kubelocal.apiserver.storage.entries import FieldIndex
from kubelocal.apiserver.storage.spare import CopiedJournal, open_state
from kubelocal.apiserver.storage.sqlite import StateError
from kubelocal.apiserver.storage.store import Entry, Store


def commit(store: Store, name: str, *, deleted: bool = False) -> None:
    body = f'{{"metadata":{{"namespace":"n","name":"{name}","resourceVersion":"1"}}}}'
    entry = Entry("n", name, name, store.version + 1, body.encode(), {}, ())
    store.commit("c", entry, deleted=deleted)


def opened(path: Path) -> tuple[CopiedJournal, Store]:
    return open_state(path, FieldIndex().read)


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"\xff" * 8192)


def break_object(path: Path) -> None:
    raw = sqlite3.connect(path)
    raw.execute("UPDATE objects SET body=x'00ff'")
    raw.commit()
    raw.close()


def truncate(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:6000])


DAMAGES = [overwrite, break_object, truncate, cut, Path.unlink]


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_copy_takes_the_place_of_a_file_that_is_damaged(
    damage: Callable[[Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "state.db"
    journal, store = opened(path)
    commit(store, "a")
    journal.keep_up()  # the whole
    commit(store, "b")
    commit(store, "c")
    commit(store, "c", deleted=True)
    journal.keep_up()  # what changed
    journal.journal.close()
    last = store.version
    damage(path)
    with caplog.at_level(logging.ERROR):
        journal, store = opened(path)
    assert sorted(store.collection("c").entries) == ["n/a", "n/b"]
    assert store.version > last + 1000, "versions that were given out must not come again"
    commit(store, "d")
    journal.close()
    (record,) = caplog.records
    assert "its copy is used" in record.getMessage()
    told = record.fields  # type: ignore[attr-defined]
    assert told["file"] == str(path)
    assert damage in (truncate, Path.unlink) or list(tmp_path.glob("state.db.damaged-*"))
    journal, store = opened(path)
    assert sorted(store.collection("c").entries) == ["n/a", "n/b", "n/d"]
    journal.close()


def test_without_a_copy_nothing_is_started_and_the_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(b"this is not a database" * 1000)
    with pytest.raises(StateError, match=r"state\.db is damaged .*file is not a database.*purge"):
        opened(path)
    assert path.read_bytes().startswith(b"this is not")


def test_a_file_that_another_process_holds_is_not_taken_for_damaged(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    journal, store = opened(path)
    commit(store, "a")
    journal.keep_up()
    with pytest.raises(StateError, match="cannot be opened: database is locked"):
        opened(path)
    assert not list(tmp_path.glob("*damaged*"))
    journal.close()


def test_a_copy_that_cannot_be_written_is_recreated_and_holds_up_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "state.db"
    journal, store = opened(path)
    hindrance = tmp_path / "state-copy.db.unfinished"
    hindrance.mkdir()
    with caplog.at_level(logging.WARNING):
        for name in "abc":
            commit(store, name)
            journal.keep_up()
    assert caplog.text.count("cannot copy the state") == 1
    hindrance.rmdir()
    journal.keep_up()
    journal.journal.close()
    path.unlink()
    journal, store = opened(path)
    assert sorted(store.collection("c").entries) == ["n/a", "n/b", "n/c"]
    journal.close()


def test_a_write_that_fails_says_where_and_is_told_again_when_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    journal, store = opened(tmp_path / "state.db")

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patched, caplog.at_level(logging.ERROR):
        patched.setattr(journal.journal, "_record", full)
        for name in "ab":
            with pytest.raises(StateError, match=r"write the state file .*state\.db.*disk full\?"):
                commit(store, name)
    assert store.version == 1
    assert caplog.text == ""
    with caplog.at_level(logging.ERROR):
        commit(store, "a")
        commit(store, "b")
    (record,) = caplog.records
    assert record.fields["refused"] == 2  # type: ignore[attr-defined]
    assert "disk is full" in record.fields["error"]  # type: ignore[attr-defined]
    journal.close()


@pytest.mark.parametrize("copied", [0, 1, 2, 3])
def test_a_server_that_is_killed_while_it_takes_the_copy_takes_all_of_it_later(
    copied: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its log the copy is an older state, and ends the pods that it does not know."""
    path = tmp_path / "state.db"
    journal, store = opened(path)
    commit(store, "a")
    journal.keep_up()
    commit(store, "b")
    journal.keep_up()
    for file in tmp_path.glob("state-copy*"):  # as after a kill: with its log
        shutil.copyfile(file, tmp_path / f"kept-{file.name}")
    journal.close()
    for file in tmp_path.glob("kept-*"):
        file.replace(tmp_path / file.name.removeprefix("kept-"))
    overwrite(path)
    whole, left = shutil.copyfile, [copied]

    def copy(source: Path, target: Path) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        whole(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfile", copy)
        with contextlib.suppress(KeyboardInterrupt):
            opened(path)[0].close()
    journal, store = opened(path)
    assert sorted(store.collection("c").entries) == ["n/a", "n/b"]
    journal.close()
