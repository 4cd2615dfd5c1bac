"""A `RedisRestore` says what is given up, or is refused with what to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kubelocal.apiserver.custom.cel.rules import evaluate
from redis_operator.api.crd import redisrestore_crd
from redis_operator.api.redisrestore import RedisRestore
from redis_operator.api.redisrestore_validation import load_redisrestore

EXAMPLE = Path(__file__).parents[2] / "examples" / "restore.yaml"


def document(**spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    found["spec"] |= spec
    return found


def test_the_example_can_be_followed() -> None:
    assert isinstance(load_redisrestore(document()), RedisRestore)


@pytest.mark.parametrize(
    ("spec", "path", "text"),
    [
        ({"discard": None}, "spec.discard", "set discard.database"),
        ({"discard": {"database": "other"}}, "spec.discard", "set discard.database"),
        ({"discard": {}}, "spec.discard.database", "is required"),
        ({"from": None}, "spec.from", "is required"),
        ({"from": {}}, "spec.from", "use one of"),
        ({"from": {"name": "a", "schedule": "b"}}, "spec.from", "use one of"),
        ({"keep": {"storage": {}}}, "spec.keep.storage", "use one of claim, s3, gcs and azure"),
    ],
)
def test_what_is_wrong_is_named_by_its_path(spec: dict[str, Any], path: str, text: str) -> None:
    found = load_redisrestore(document(**spec))
    assert isinstance(found, tuple)
    assert [problem.path for problem in found] == [path]
    assert text in found[0].message


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (None, document(), ""),
        (None, document(discard={"database": "other"}), "set discard.database"),
        (None, {"spec": {"redis": "scratch", "from": {"name": "m"}}}, "set discard.database"),
        (document(), document(), ""),
        (document(), document(**{"from": {"name": "other"}}), "create another one"),
    ],
)
def test_the_api_server_refuses_the_same(
    before: dict[str, Any] | None, after: dict[str, Any], text: str
) -> None:
    [version] = redisrestore_crd()["spec"]["versions"]
    after = {"metadata": {"name": "back"}, **after}
    causes = evaluate(version["schema"]["openAPIV3Schema"], after, before)
    told = "; ".join(cause.message for cause in causes)
    assert text in told
    assert bool(text) == bool(told)
