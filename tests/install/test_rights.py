"""The rights that the operator is installed with. X-09"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

FILE = Path(__file__).parents[2] / "config" / "rbac" / "operator.yaml"
RULES = yaml.safe_load(FILE.read_text())["rules"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: ",".join(rule["resources"]))
def test_no_right_is_a_wildcard_or_hands_out_others(rule: dict[str, list[str]]) -> None:
    assert not {"*", "escalate", "bind", "impersonate"} & {*rule["verbs"]}
    assert "*" not in (*rule["apiGroups"], *rule["resources"])
    assert "nonResourceURLs" not in rule
    assert not any(
        name in ("pods/exec", "pods/attach", "nodes/proxy") for name in rule["resources"]
    )


def test_nothing_that_belongs_to_no_namespace_is_written() -> None:
    cluster_wide = {"nodes", "storageclasses", "redisversions", "namespaces", "clusterroles"}
    for rule in RULES:
        if cluster_wide & {*rule["resources"]}:
            assert set(rule["verbs"]) <= {"get", "list", "watch"}, rule
