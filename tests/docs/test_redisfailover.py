"""The page on RedisFailover has every field of the kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from redis_operator.api.redisfailover_validation import redisfailover_schema

PAGE = (Path(__file__).parents[2] / "docs" / "redisfailover.md").read_text()
SPEC = redisfailover_schema()["properties"]["spec"]["properties"]


@pytest.mark.parametrize(
    ("part", "heading"), [("redis", "`spec.redis`, and"), ("sentinel", "`spec.sentinel`:")]
)
def test_every_field_has_a_row(part: str, heading: str) -> None:
    table = PAGE.partition(f"\n{heading}")[2].partition("\n\n")[2].partition("\n\n")[0]
    cells = " ".join(row.split("|")[1] for row in table.splitlines() if row.startswith("| `"))
    missing = [
        name
        for name in SPEC[part]["properties"]
        if f"`{name}`" not in cells and f"`{name}." not in cells
    ]
    assert missing == []


def test_the_rest_has_rows_too() -> None:
    rest = PAGE.partition("The rest:")[2]
    assert [name for name in ("auth", "labelWhitelist", "bootstrapNode") if name not in rest] == []
