from __future__ import annotations

import json
from pathlib import Path

from bench.rows import (
    at_least,
    at_most,
    better_if_less,
    better_if_more,
    no_worse,
    show,
    stated,
    write,
)


def test_a_cost_is_better_when_it_is_less_than_the_peers() -> None:
    row = better_if_less("list", 2.0, 30.0, "s", aim=15)
    assert (row.ratio, row.met) == (15.0, True)
    assert not better_if_less("list", 2.1, 30.0, "s", aim=15).met


def test_a_rate_is_better_when_it_is_more_than_the_peers() -> None:
    row = better_if_more("rate", 300.0, 100.0, "per s", aim=3)
    assert (row.ratio, row.met) == (3.0, True)
    assert not better_if_more("rate", 299.0, 100.0, "per s", aim=3).met


def test_no_worse_is_missed_when_the_runs_leave_open_that_it_is_worse() -> None:
    steady = [40.0, 41.0, 42.0, 43.0, 44.0] * 6
    assert no_worse("gap", steady, steady, "ms").met
    assert not no_worse("gap", [wait * 1.2 for wait in steady], steady, "ms").met
    assert no_worse("gap", [wait * 0.8 for wait in steady], steady, "ms").met
    scattered = [9.0, 25.0, 40.0, 46.0, 90.0]
    assert not no_worse("gap", scattered, scattered, "ms").met, "five such runs show nothing"


def test_the_figure_of_several_runs_is_their_median_with_its_spread() -> None:
    row = better_if_less("list", [3.0, 1.0, 2.0], [30.0, 50.0], "s", aim=20)
    assert (row.ours, row.peer, row.ratio, row.met) == (2.0, 40.0, 20.0, True)
    assert (row.spread, row.peer_spread, row.runs) == ((1.0, 3.0), (30.0, 50.0), 2)


def test_limits_without_a_peer_are_met_at_the_limit_itself() -> None:
    assert at_most("gap", 0.5, "s", limit=0.5).met
    assert not at_most("gap", 0.51, "s", limit=0.5).met
    assert at_least("queue", 200_000, "per s", floor=200_000).met
    assert not at_least("queue", 199_999, "per s", floor=200_000).met


def test_a_stated_figure_is_neither_met_nor_missed() -> None:
    row = stated("memory", 2.0, 6.0, "MiB")
    assert (row.met, row.ratio) == (None, 3.0)


def test_the_table_names_what_was_missed_and_the_file_keeps_everything(tmp_path: Path) -> None:
    rows = [at_most("gap", 2.0, "s", limit=1), stated("memory", 1.5, None, "MiB")]
    lines = show(rows).splitlines()
    assert lines[0].split()[:2] == ["name", "ours"]
    assert lines[1].endswith("NO")
    file = tmp_path / "build" / "bench.json"
    write(rows, file)
    kept = json.loads(file.read_text())
    assert [row["name"] for row in kept] == ["gap", "memory"]
    assert kept[0]["met"] is False
    assert kept[1]["met"] is None
