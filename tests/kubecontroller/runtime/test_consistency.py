"""§6.3.3: read your own writes."""

from __future__ import annotations

import pytest

from kubecontroller.runtime.consistency import Consistency

OWNER = ("d", "owner")


class Cache:
    def __init__(self, version: str = "") -> None:
        self.version = version
        self.on_progress: list = []

    def reach(self, version: str) -> None:
        self.version = version
        for callback in self.on_progress:
            callback()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


CLOCK = Clock()


@pytest.fixture
def pods() -> Cache:
    return Cache()


@pytest.fixture
def store(pods: Cache) -> Consistency:
    return Consistency(pods=pods, clock=CLOCK)


def wrote(store: Consistency, version: str, uid: str = "u") -> None:
    store.wrote(OWNER, uid=uid, resource="pods", version=version)


def test_an_owner_we_wrote_nothing_for_may_be_decided(store):
    assert store.limitation(OWNER) is None


def test_a_cache_behind_our_write_is_named_with_both_versions(store, pods):
    pods.version = "9"
    wrote(store, "10")
    assert store.limitation(OWNER) == "the cache of pods has reached 9, own write: 10"
    pods.version = "10"
    assert store.limitation(OWNER) is None


def test_versions_are_compared_as_numbers_of_any_length(store, pods):
    wrote(store, "9" * 40)
    pods.version = "1" + "0" * 40
    assert store.limitation(OWNER) is None
    wrote(store, "100")
    pods.version = "99"
    assert store.limitation(OWNER) is not None


def test_the_newest_of_several_writes_is_waited_for(store, pods):
    wrote(store, "10")
    wrote(store, "12")
    wrote(store, "11")
    pods.version = "11"
    assert store.limitation(OWNER) is not None
    pods.version = "12"
    assert store.limitation(OWNER) is None


def test_a_cache_that_has_reached_nothing_is_behind(store):
    wrote(store, "1")
    assert "nothing" in store.limitation(OWNER)


@pytest.mark.parametrize("version", ["abc", "", "007", "-1", "1.5"])
def test_a_version_that_cannot_be_compared_is_let_through(store, pods, version):
    pods.version = "5"
    wrote(store, version)
    assert store.limitation(OWNER) is None


def test_each_resource_is_compared_with_its_own_cache(store, pods):
    secrets = Cache()
    store.add_cache("secrets", secrets)
    pods.version = "100"
    store.wrote(OWNER, uid="u", resource="secrets", version="50")
    assert "secrets" in store.limitation(OWNER)


def test_forgetting_needs_the_uid_of_the_object_that_went(store):
    wrote(store, "10", uid="new")
    store.forget(OWNER, uid="old")
    assert store.limitation(OWNER) is not None
    store.forget(OWNER, uid="new")
    assert store.limitation(OWNER) is None


def test_writes_for_an_earlier_object_of_the_same_name_are_dropped(store, pods):
    wrote(store, "500", uid="old")
    wrote(store, "10", uid="new")
    pods.version = "10"
    assert store.limitation(OWNER) is None


def test_what_was_reached_is_not_kept(store, pods):
    wrote(store, "10")
    pods.version = "10"
    assert store.limitation(OWNER) is None
    assert store._written == {}


def test_a_write_of_a_resource_without_a_cache_says_so_and_holds_back_nobody(store, pods):
    woken = []
    store.on_ready = woken.append
    wrote(store, "10")
    pods.reach("9")
    assert "pods" in store.limitation(OWNER)
    with pytest.raises(KeyError, match="no cache of 'jobs'"):
        store.wrote(OWNER, uid="u", resource="jobs", version="1")
    pods.reach("10")  # no progress of a cache raises because of it
    assert woken == [OWNER]
    assert store.limitation(OWNER) is None


def test_a_write_in_a_namespace_without_a_cache_says_so():
    store = Consistency(clock=Clock())
    store.add_cache("pods", Cache(), namespace="a")
    with pytest.raises(KeyError, match="no cache of 'pods' in 'd'"):
        store.wrote(OWNER, uid="u", resource="pods", version="1")


def test_a_quiet_namespace_holds_back_no_write_in_another():
    busy, quiet = Cache("5"), Cache("5")
    store = Consistency(clock=Clock())
    store.add_cache("pods", busy, namespace="a")
    store.add_cache("pods", quiet, namespace="b")
    store.wrote(("a", "owner"), uid="u", resource="pods", version="9")
    assert store.limitation(("a", "owner")) is not None
    busy.reach("9")
    assert store.limitation(("a", "owner")) is None


def test_an_owner_that_was_held_back_is_woken_when_the_cache_catches_up(store, pods):
    woken = []
    store.on_ready = woken.append
    wrote(store, "10")
    pods.reach("8")
    assert store.limitation(OWNER) is not None
    pods.reach("9")
    assert woken == []
    pods.reach("10")
    pods.reach("11")
    assert woken == [OWNER]


def test_a_cache_that_never_arrives_is_waited_for_only_so_long():
    clock, pods = Clock(), Cache("1")
    store = Consistency(pods=pods, clock=clock, patience=5.0)
    wrote(store, "10")
    assert store.limitation(OWNER) is not None
    clock.now = 4.9
    assert store.limitation(OWNER) is not None
    clock.now = 5.1
    assert store.limitation(OWNER) is None
    wrote(store, "12")
    assert store.limitation(OWNER) is not None, "the next write is waited for again"


def test_a_cache_that_does_not_arrive_in_time_has_its_watch_opened_again(store, pods):
    suspected = []
    pods.suspect = suspected.append
    pods.version = "9"
    wrote(store, "10")
    CLOCK.now = 0.0
    assert store.limitation(OWNER) is not None
    assert not suspected
    CLOCK.now = 6.0
    assert store.limitation(OWNER) is None
    assert suspected == ["the cache of pods has reached 9, own write: 10"]
    CLOCK.now = 0.0
