"""`tools/rights.py`: an audit log compared with the table of rights."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
sys.path.insert(0, str(TOOLS))
from rights import main  # noqa: E402 - a program, not a package


def event(
    account: str, verb: str, resource: str, code: int = 200, *, decision: str = "", **about: Any
) -> str:
    name = f"system:serviceaccount:redis-operator:{account}"
    given = {"apiGroup": "", "resource": resource, **about}
    return json.dumps(
        {
            "stage": "ResponseComplete",
            "user": {"username": name},
            "verb": verb,
            "objectRef": given,
            "responseStatus": {"code": code},
            "annotations": {"authorization.k8s.io/decision": decision} if decision else {},
        }
    )


def test_used_and_unused_rights_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "audit.log"
    lines = [
        event("redis-operator", "list", "pods"),
        event("redis-operator", "list", "pods"),
        event("redis-operator", "patch", "statefulsets", 201, apiGroup="apps"),
        event("redis-operator-strategy", "patch", "configmaps", 201),
        event("somebody-else", "delete", "secrets"),
    ]
    log.write_text("\n".join(lines) + "\n")
    assert main([str(log)]) == 0
    said = capsys.readouterr().out
    assert "redis-operator: 4 calls, 3 of " in said
    assert "used      create statefulsets.apps" in said
    assert "not used  delete pods" in said
    assert "redis-operator-strategy: 2 calls, 2 of 2 rights used" in said
    assert "somebody-else" not in said


@pytest.mark.parametrize(
    "line",
    [
        event("redis-operator", "create", "pods", subresource="exec"),
        event("redis-operator", "list", "pods", 403),
        event("redis-operator", "list", "pods", 403, decision="forbid"),
    ],
    ids=["not in the table", "forbidden", "forbidden by RBAC"],
)
def test_a_call_without_a_right_is_named(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "audit.log"
    log.write_text(line)
    assert main([str(log)]) == 1
    assert "NO RIGHT" in capsys.readouterr().out


def test_a_call_that_a_terminating_namespace_refuses_used_its_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "audit.log"
    log.write_text(event("redis-operator", "create", "events", 403, decision="allow"))
    assert main([str(log)]) == 0
    assert "used      create events" in capsys.readouterr().out


def test_an_installation_for_a_list_of_namespaces_has_its_own_rights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "audit.log"
    log.write_text(event("redis-operator", "get", "namespaces"))
    assert main([str(log)]) == 1
    assert "NO RIGHT  get namespaces" in capsys.readouterr().out
    assert main([str(log), "--watch-namespaces", "team,shop"]) == 0
    said = capsys.readouterr().out
    assert "used      get namespaces" in said
    assert "not used  list pods" in said
