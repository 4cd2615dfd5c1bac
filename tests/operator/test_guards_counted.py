"""The guards that are counted, and those whose rows are in other files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.operator.guards_in_code import ELSEWHERE, find_guards, guards_in, guards_of_failover

from planning.failover.test_failover_preconditions import ROWS
from redis_operator.planning.preconditions import precondition

_TESTS = Path(__file__).parent.parent
_NOT_OF_ONE_ACTION = {"failover.preconditions.not_a_primary#1"}  # four `require` show it

_SOURCE = """
def _one(action: Reset, facts):
    if a:
        return "in words"
    return f"{pod} is full" if b else None

async def _two(self, action):
    require(_one(action))
    if c:
        raise Refused(f"{pod} was recreated")
    return "not a reason"
"""


def test_reasons_refusals_and_calls_of_require_are_counted() -> None:
    found = guards_in(_SOURCE, "x.preconditions")
    assert {name: guard.pattern for name, guard in found.items()} == {
        "x.preconditions._one#1": r"in\ words",
        "x.preconditions._one#2": r".*\ is\ full",
        "x.preconditions._two#1": r".*\ was\ recreated",
        "x.preconditions._two#2": r"not\ a\ reason",
        "x.preconditions._two#require1": ".+",
    }
    assert found["x.preconditions._one#1"].kind == "Reset"
    assert set(guards_in(_SOURCE, "actions")) == {"actions._two#1", "actions._two#require1"}


@pytest.mark.parametrize("guard", ELSEWHERE)
def test_a_guard_that_is_shown_elsewhere_has_a_test_there(guard: str) -> None:
    assert guard in find_guards()
    file, _, test = ELSEWHERE[guard].partition("::")
    assert re.search(rf"^(async )?def {test}\(", (_TESTS / file).read_text(), re.MULTILINE)


def _shown() -> set[str]:
    """The guards of mode Failover that refuse a row, each row by the one that fits it best."""
    guards, of_failover = find_guards(), guards_of_failover()
    shown: set[str] = set()
    for action, facts, _ in ROWS.values():
        refusal = precondition(action, facts)
        if refusal is None:
            continue
        for kinds in ({type(action).__name__}, {"str"}):  # its own reasons, and shared ones
            fitting = [
                guard
                for guard in of_failover
                if guards[guard].kind in kinds and re.search(guards[guard].pattern, refusal)
            ]
            shown |= set(sorted(fitting, key=lambda one: len(guards[one].pattern))[-1:])
    return shown


def test_every_reason_of_mode_failover_refuses_a_row() -> None:
    assert len(guards_of_failover()) > 30
    assert _shown() | _NOT_OF_ONE_ACTION == guards_of_failover()
