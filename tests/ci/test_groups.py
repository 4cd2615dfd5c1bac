"""Tests of one group are given to one worker, and each test is in one part of a run."""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadGroupScheduling

from support.groups import keep_part


@pytest.mark.xdist_group("example")
@pytest.mark.parametrize("number", [1, 2])
def test_a_worker_that_asks_for_groups_is_given_their_names(
    request: pytest.FixtureRequest, number: int
) -> None:
    """Without groups (one process, or another distribution) the id of a test is what it was."""
    own = f"::{request.node.name}"
    found = request.node.nodeid
    if not request.config.getoption("loadgroup", default=False):
        assert found.endswith(own)
        return
    assert found.endswith(f"{own}@example")
    scope = LoadGroupScheduling._split_scope(None, found)  # type: ignore[arg-type]
    assert scope == "example"


def test_the_part_of_a_test_does_not_depend_on_what_else_is_collected(
    request: pytest.FixtureRequest,
) -> None:
    every = list(request.session.items)
    parts = []
    for number in range(3):
        kept = list(every)
        keep_part(request.config, kept, f"{number}/3")
        parts.append(set(kept))
        few = every[::7]
        keep_part(request.config, few, f"{number}/3")
        assert set(few) == set(every[::7]) & set(kept)
    assert sum(map(len, parts)) == len(every)
    assert set.union(*parts) == set(every)
