"""Which changes of a database wake the operator."""

from __future__ import annotations

from typing import Any

import pytest

from kubecontroller.runtime.changes import Added, Updated
from redis_operator.operator.wiring import by_others


def _database(version: str, **more: Any) -> dict[str, Any]:
    meta = {"name": "cache", "namespace": "default", "generation": 1, "resourceVersion": version}
    return {"metadata": {**meta, **more}}


@pytest.mark.parametrize(
    ("new", "wakes"),
    [
        (_database("2"), False),
        (_database("1"), True),
        (_database("2", generation=2), True),
        (_database("2", annotations={"a": "b"}), True),
        (_database("2", labels={"a": "b"}), True),
        (_database("2", finalizers=["a"]), True),
        (_database("2", deletionTimestamp="2026-01-01T00:00:00Z"), True),
    ],
    ids=["status", "resync", "spec", "annotation", "label", "finalizer", "deletion"],
)
def test_a_report_of_our_own_wakes_nobody_and_all_else_does(new: Any, wakes: bool) -> None:
    assert by_others(Updated(_database("1"), new)) is wakes


def test_a_new_database_wakes_the_operator() -> None:
    assert by_others(Added(_database("1")))
