from __future__ import annotations

import json
from pathlib import Path

from bench.rows import (
    at_least,
    at_most,
    better_if_less,
    better_if_more,
    no_longer,
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


def test_waits_that_chance_makes_are_missed_only_when_chance_does_not_explain_them() -> None:
    waits = [9.0, 25.0, 40.0, 42.0, 45.0, 46.0, 48.0, 50.0]
    assert no_longer("gap", waits, waits, "ms").met
    assert no_longer("gap", waits, [wait - 1 for wait in waits], "ms").met
    row = no_longer("gap", [wait + 20 for wait in waits], waits, "ms")
    assert (row.ours, row.peer, row.met) == (63.5, 43.5, False)


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
