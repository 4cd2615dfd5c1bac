"""The store: one rising version, history that ends somewhere, states of the past."""

from __future__ import annotations

import json
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelocal.apiserver.storage.entries import FieldIndex
from kubelocal.apiserver.storage.sqlite import SqliteJournal, open_store
from kubelocal.apiserver.storage.store import Entry, Lost, Store, pack


def entry(store: Store, name: str, text: str = "{}") -> Entry:
    return Entry(
        namespace="n",
        name=name,
        uid=name,
        version=store.version + 1,
        kept=pack(text.encode()),
        labels={},
    )


def test_version_rises_with_each_change():
    store = Store()
    store.commit("c", entry(store, "a"))
    store.commit("d", entry(store, "b"))
    assert store.version == 3
    assert store.collection("c").version == 2


def test_version_that_does_not_follow_is_refused():
    store = Store()
    late = entry(store, "a")
    store.commit("c", entry(store, "b"))
    with pytest.raises(ValueError, match="does not follow"):
        store.commit("c", late)


def test_changes_older_than_the_history_are_lost():
    store = Store(history=3)
    for number in range(5):
        store.commit("c", entry(store, f"a{number}"))
    home = store.collection("c")
    assert [change.version for change in home.since(home.position(3))] == [4, 5, 6]
    with pytest.raises(Lost):
        home.position(2)
    with pytest.raises(Lost):
        home.since(0)


def test_cursor_of_a_reader_that_sleeps_is_lost_not_moved():
    store = Store(history=2)
    home = store.collection("c")
    cursor = home.position(store.version)
    for number in range(3):
        store.commit("c", entry(store, f"a{number}"))
    with pytest.raises(Lost):
        list(home.since(cursor))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=30))
def test_past_states_are_what_they_were(steps):
    store = Store()
    home = store.collection("c")
    seen = {store.version: dict(home.entries)}
    for name, is_removal in steps:
        if is_removal and f"n/{name}" not in home.entries:
            continue
        store.commit("c", entry(store, name), deleted=is_removal)
        seen[store.version] = dict(home.entries)
    for version, state in seen.items():
        assert home.at(version) == state
    assert home.keys() == sorted(home.entries)


def test_journal_that_fails_leaves_no_trace():
    class Broken:
        def record(self, collection, change):
            raise OSError("disk full")

    store = Store(Broken())
    with pytest.raises(OSError, match="disk full"):
        store.commit("c", entry(store, "a"))
    assert store.version == 1
    assert not store.collection("c").entries


def test_file_gives_back_what_was_committed(tmp_path):
    metadata = {"name": "a", "namespace": "n", "resourceVersion": "2", "labels": {"x": "y"}}
    body = json.dumps({"metadata": metadata})
    journal = SqliteJournal(tmp_path / "db")
    store = open_store(journal, FieldIndex().read)
    store.commit("c", entry(store, "a", body))
    store.commit("c", entry(store, "b", body))
    store.commit("c", entry(store, "b", body), deleted=True)
    journal.close()
    journal = SqliteJournal(tmp_path / "db")
    again = open_store(journal, FieldIndex().read)
    journal.close()
    assert again.version == 4
    assert list(again.collection("c").entries) == ["n/a"]
    assert again.collection("c").entries["n/a"].labels == {"x": "y"}
    with pytest.raises(Lost):
        again.collection("c").position(3)


def test_a_large_object_is_kept_small_and_answered_whole():
    store = Store()
    text = '{"data":"' + "a long value of many words " * 400 + '"}'
    store.commit("c", entry(store, "a", text))
    kept = store.collection("c").entries["n/a"]
    assert kept.body == text.encode()
    assert len(kept.kept) < len(text) / 10


def test_file_keeps_large_objects_packed_and_reads_those_that_are_not(tmp_path):
    metadata = '"metadata":{"namespace":"n","name":"a","resourceVersion":"2","labels":{"x":"y"}}'
    large = "{" + metadata + ',"data":{"k":"' + "same words again and again " * 1000 + '"}}'
    journal = SqliteJournal(tmp_path / "db")
    store = open_store(journal, FieldIndex().read)
    store.commit("c", entry(store, "a", large))
    journal.close()
    raw = sqlite3.connect(tmp_path / "db")
    ((size,),) = raw.execute("SELECT length(body) FROM objects").fetchall()
    assert size < len(large) / 10
    raw.execute("INSERT INTO objects VALUES ('d', 'n/a', 7, ?)", (large.encode(),))
    raw.commit()
    raw.close()
    journal = SqliteJournal(tmp_path / "db")
    again = open_store(journal, FieldIndex().read)
    journal.close()
    assert again.version == 7
    for collection in ("c", "d"):
        assert again.collection(collection).entries["n/a"].body == large.encode()
