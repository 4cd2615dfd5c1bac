"""The termination message of a worker: it is read again, whatever is in it."""

from __future__ import annotations

import pytest

from redis_operator.backup.task import Report, read_report

MANY = tuple({"name": f"shard-{number}", "slots": "0-100", "size": 1} for number in range(500))


@pytest.mark.parametrize(
    "word", ["shard-7 is not archived; ", 'a "quoted" \\ word ', "\x00\n", "é 漢字 🙂 "]
)
@pytest.mark.parametrize("parts", [(), MANY], ids=["alone", "with many parts"])
@pytest.mark.parametrize("count", [1, 150, 400, 5000])
def test_an_error_of_any_length_is_read_with_its_reason(
    word: str, parts: tuple[dict[str, str | int], ...], count: int
) -> None:
    """An archive of many shards has a reason for each of them."""
    error = word * count
    text = Report(error=error, reason="NotArchived", parts=parts).text()
    assert len(text) <= 4096
    found = read_report(text.decode())
    assert found is not None
    assert found.reason == "NotArchived"
    beginning = found.error.removesuffix(" ...")
    assert error.startswith(beginning)
    assert len(beginning) == len(error) or len(text) > 3900
