from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from redis_operator.cli.app import app
from redis_operator.cli.doctor import examine


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setenv("REDIS_OPERATOR_HOME", str(tmp_path))

    def call(*words: str) -> Result:
        return CliRunner().invoke(app, list(words))

    return call


def test_without_a_cluster_people_are_told_how_to_start_one(run: object) -> None:
    assert "redis-operator up" in run("status").output  # type: ignore[operator]
    refused = run("down", "--name", "x")  # type: ignore[operator]
    assert refused.exit_code == 1
    assert "there is no local cluster called 'x'" in refused.output
    assert "up --name x" in refused.output


def test_the_help_names_what_runs_on_kubernetes(run: object) -> None:
    text = run("--help").output  # type: ignore[operator]
    assert text.index("On this machine:") < text.index("\n  up ") < text.index("On Kubernetes:")
    assert text.index("On Kubernetes:") < text.index("\n  run ")
    for name in app.list_commands(click.Context(app)):
        assert f"\n  {name} " in text
    assert "..." not in text.partition("On this machine:")[2]  # no description is cut
    assert "--namespaces" in run("run", "--help").output  # type: ignore[operator]


def test_a_bad_name_is_refused_before_anything_is_made(run: object, tmp_path: Path) -> None:
    refused = run("up", "--name", "No Good", "--detach")  # type: ignore[operator]
    assert refused.exit_code == 1
    assert "small letters" in refused.output
    assert list(tmp_path.iterdir()) == []


def test_the_doctor_looks_at_everything_and_says_what_follows() -> None:
    findings = {finding.what: finding for finding in examine()}
    assert set(findings) == {
        "system", "python", "loopback", "kubectl", "servers", "mounts", "users", "limits",
    }  # fmt: skip
    assert "valkey:9.1" in findings["servers"].said
    assert all(finding.said for finding in findings.values())
