"""Tests of one group are given to one worker."""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadGroupScheduling


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
