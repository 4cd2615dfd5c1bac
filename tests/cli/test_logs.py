from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from kubelocal import supervisor
from kubelocal.instance import Instance, Settings
from redis_operator.cli import logs
from redis_operator.cli.app import app
from redis_operator.cli.local_cluster import INSTANCES

FIRST = "2026-01-01T00:00:01.000Z INFO    first\n"
SECOND = "2026-01-01T00:00:02.000Z ERROR   second\nTraceback\n  of second\n"
THIRD = "2026-01-01T00:00:03.000Z INFO    third\n"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Instance:
    monkeypatch.setenv("REDIS_OPERATOR_HOME", str(tmp_path))
    made = INSTANCES.find("one")
    made.save(Settings(network=33))
    made.logs.mkdir()
    made.keeper_log.parent.mkdir(parents=True)
    made.log_of("operator").write_text(FIRST + THIRD)
    made.keeper_log.write_text(SECOND)
    return made


def shown(*words: str) -> list[str]:
    result = CliRunner().invoke(app, ["logs", "--name", "one", *words])
    assert result.exit_code == 0, result.output
    return result.output.splitlines()


def test_the_log_of_one_process_is_shown_as_it_is(cluster: Instance) -> None:
    assert shown("operator") == (FIRST + THIRD).splitlines()
    assert shown("operator", "--tail", "1") == THIRD.splitlines()
    assert shown("supervisor") == []


def test_all_logs_are_shown_in_the_order_of_time_with_tracebacks_in_one_piece(
    cluster: Instance,
) -> None:
    assert [line.split(" | ")[1] for line in shown()] == (FIRST + SECOND + THIRD).splitlines()
    assert shown()[0].startswith("operator ")
    assert shown()[3].startswith("keeper ")


def test_an_unknown_process_is_refused_with_those_that_there_are(cluster: Instance) -> None:
    refused = CliRunner().invoke(app, ["logs", "--name", "one", "nobody"])
    assert refused.exit_code == 1
    assert "supervisor, control-plane, node-agent, operator, keeper" in refused.output


def test_lines_are_followed_also_over_the_cut_of_a_log(
    cluster: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = cluster.log_of("operator")
    monkeypatch.setattr(supervisor, "_MOST_LOGGED", 20)
    monkeypatch.setattr(logs, "_LOOK_SECONDS", 0.0)
    seen: list[str] = []
    steps = iter(("half a ", "line\n", "cut", "after\n", "", ""))

    def goes_on() -> bool:
        step = next(steps, None)
        if step == "cut":
            supervisor.trim(path)
        elif step:
            with path.open("a") as file:
                file.write(step)
        return step is not None

    logs.follow({"operator": path}, seen.append, goes_on=goes_on)
    assert seen == ["half a line", "after"]
    assert path.with_name("operator.log.1").read_text() == FIRST + THIRD + "half a line\n"
