"""The tables of modes: each is whole, and what its rows say is true."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest
from msgspec.structs import replace

from redis_operator.api.redis import Mode
from redis_operator.manifests.layouts import LAYOUTS
from redis_operator.operator.servers.dialects import DIALECTS
from redis_operator.planning.actions import DeletePod
from redis_operator.planning.advice import Plan
from redis_operator.planning.modes import MODES
from redis_operator.planning.plan import plan
from redis_operator.planning.row import Row
from support.situations import WANTED, whole_database

DOCS = Path(__file__).parents[2] / "docs"
ROWS = [(mode, row) for mode in MODES for row in MODES[mode].rules]


def test_every_table_has_the_same_modes() -> None:
    assert set(MODES) == set(LAYOUTS) == set(DIALECTS) == set(Mode)


@pytest.mark.parametrize("mode", MODES)
def test_rules_have_names_of_their_own(mode: Mode) -> None:
    names = [row.name for row in MODES[mode].rules]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("mode", "row"), ROWS, ids=lambda x: x.name if isinstance(x, Row) else "")
def test_what_a_row_names_is_documented(mode: Mode, row: Row) -> None:
    del mode
    invariants = re.findall(r"^\| (I\d+) ", (DOCS / "invariants.md").read_text(), re.MULTILINE)
    cases = (DOCS / "failure-cases.md").read_text()
    assert set(row.keeps) <= set(invariants)
    assert all(re.search(rf"\b{case}\b", cases) for case in row.cases)
    assert bool(row.event) == bool(row.actions), "steps have an event, and nothing else has"
    assert row.why


def test_a_step_that_is_not_in_the_row_of_its_rule_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = whole_database()
    observed = database.observe()
    pod = observed.nodes[0].pod
    stage = (DeletePod(pod=pod.name, uid=pod.uid, why="by mistake"),)
    wrong = Plan(rule="grow", why="by mistake", stages=(stage,))
    mode = MODES[Mode.CLUSTER]
    rows = tuple(replace(r, rule=lambda _: wrong) if r.name == "grow" else r for r in mode.rules)
    changed = {**MODES, Mode.CLUSTER: replace(mode, rules=rows)}
    monkeypatch.setattr(import_module("redis_operator.planning.plan"), "MODES", changed)
    found = plan(WANTED, observed, database.world.now)
    assert not found.stages
    assert any("DeletePod is not among its actions" in reason for reason in found.blocked)
