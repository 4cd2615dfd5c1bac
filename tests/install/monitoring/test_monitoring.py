"""Alerts and dashboard: of figures that exist, each alert with a page for whoever it wakes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from promql_parser import VectorSelector

from kubecontroller.client.errors import NotFound
from kubecontroller.client.meta import Manifest
from kubecontroller.client.objects import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS
from kubecontroller.client.scheme import Kind
from redis_operator.api.status import Phase
from redis_operator.install.monitoring.alerts import ALERTS, JOB
from redis_operator.install.monitoring.dashboard import PANELS, dashboard
from redis_operator.install.monitoring.objects import monitoring
from redis_operator.install.objects import MONITORING_KINDS, objects
from redis_operator.install.options import MonitoringOptions, Options
from redis_testing.simulation.failover import failover
from redis_testing.simulation.system import Simulation, simulate
from support.small_cluster import SmallCluster, small_cluster

RUNBOOKS = Path(__file__).parents[3] / "docs" / "runbooks"
SECTIONS = ("## Likely causes", "## Check", "## Do")
OF_PROMETHEUS = {"up"}
_SUFFIXES = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_count", "_sum"),
    "gauge": ("",),
    "info": ("_info",),
}
QUERIES = [
    query.expression.replace("$__rate_interval", "5m")
    for _, row in PANELS
    for panel in row
    for query in panel.queries
]
EXPRESSIONS = [*(alert.expression for alert in ALERTS), *QUERIES]


def selectors(expression: str) -> list[VectorSelector]:
    """Return what an expression reads; fails if Prometheus would not take it."""
    found: list[VectorSelector] = []

    def visit(part: Any) -> None:
        if isinstance(part, promql_parser.MatrixSelector):
            found.append(part.vector_selector)
        elif isinstance(part, VectorSelector):
            found.append(part)

    promql_parser.walk(promql_parser.parse(expression), visit)
    return found


def names(expression: str) -> set[str]:
    return {selector.name or "" for selector in selectors(expression)}


@pytest.fixture(scope="session")  # tests of several modules take turns
def served() -> dict[str, set[str]]:
    """Every name that `/metrics` of an operator at work has, with the labels seen."""

    async def look(simulation: Simulation) -> dict[str, set[str]]:
        simulation.start_operator()
        await simulation.apply(failover(replicas=1))
        await simulation.until_ready()
        found: dict[str, set[str]] = {}
        for family in simulation.metrics.collect():
            for suffix in _SUFFIXES[family.type]:
                found[f"{family.name}{suffix}"] = set()
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
        slots = "redis_operator_database_slots_served"  # of mode Cluster, which this one has not
        found[slots] |= found["redis_operator_database_ready"]
        return found

    return simulate(look)


@pytest.mark.xdist_group("figures")
def test_every_figure_that_is_asked_for_is_served(served: dict[str, set[str]]) -> None:
    wanted = set().union(*map(names, EXPRESSIONS)) - OF_PROMETHEUS
    assert len(wanted) > 30
    assert wanted - {*served} == set()
    variables = [v["query"]["query"] for v in dashboard()["templating"]["list"][1:]]
    for query in variables:
        [name] = re.findall(r"label_values\((\w+)", query)
        assert name in served


@pytest.mark.xdist_group("figures")
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_labels_that_are_asked_for_exist(expression: str, served: dict[str, set[str]]) -> None:
    for selector in selectors(expression):
        for matcher in selector.matchers.matchers:
            own = served.get(selector.name or "", set())
            assert matcher.name in own | {"job"}, f"{selector} has no {matcher.name}"
            if matcher.name == "job":
                assert matcher.value == JOB
            if matcher.name == "phase":
                assert {*matcher.value.split("|")} <= {phase.value for phase in Phase}


def test_a_wrong_expression_would_be_noticed() -> None:
    for wrong in ("max by (name (up)", "rate(up)", "sum(up) >", "nosuch(up)"):
        with pytest.raises(ValueError, match=r"."):
            promql_parser.parse(wrong)


def test_every_alert_has_a_page_and_every_page_an_alert() -> None:
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == {alert.name for alert in ALERTS}
    assert len({alert.name for alert in ALERTS}) == len(ALERTS)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_a_page_says_what_it_means_why_what_to_look_at_and_what_to_do(alert: Any) -> None:
    text = (RUNBOOKS / f"{alert.name}.md").read_text()
    assert text.startswith(f"# {alert.name}\n")
    places = [text.index(f"\n{section}\n") for section in SECTIONS]
    assert places == sorted(places)
    parts = re.split(r"\n## .*\n", text)
    meaning, causes, checks, deeds = parts
    assert len(meaning.splitlines()) >= 5
    assert causes.lstrip().startswith("- ")
    assert "    kubectl " in checks
    assert deeds.lstrip().startswith("1. ")
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        assert (RUNBOOKS / link).resolve().exists(), link
    for label in re.findall(r"\$labels\.(\w+)", alert.summary):
        grouped = f"by ({label}" in alert.expression or f", {label}" in alert.expression
        assert grouped, f"{alert.name} says {label}, which its expression drops"


def test_the_operator_is_found_by_its_service_and_our_labels_win() -> None:
    made = objects(Options(namespace="ops"))
    [service] = [o for o in made if o["metadata"]["name"] == JOB]
    [monitor] = [
        o
        for o in made
        if o["kind"] == "ServiceMonitor" and o["metadata"]["name"] == "redis-operator"
    ]
    selected = monitor["spec"]["selector"]["matchLabels"]
    others = [o for o in made if o["kind"] == "Service" and o is not service]
    assert selected.items() <= service["metadata"]["labels"].items()
    assert not any(selected.items() <= o["metadata"]["labels"].items() for o in others)
    [endpoint] = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert endpoint["honorLabels"] is True


def test_off_nothing_is_left_and_labels_and_pages_are_as_chosen() -> None:
    assert monitoring(Options(monitoring=MonitoringOptions(install=False))) == []
    chosen = MonitoringOptions(labels={"release": "prom"}, runbook_url="https://wiki.test/redis/")
    made = monitoring(Options(monitoring=chosen, watch_namespaces=("team",)))
    for one in made:
        if one["kind"] in MONITORING_KINDS:
            assert one["metadata"]["labels"]["release"] == "prom"
    [rule] = [one for one in made if one["kind"] == "PrometheusRule"]
    alerts = [alert for group in rule["spec"]["groups"] for alert in group["rules"]]
    assert alerts[0]["annotations"]["runbook_url"] == (
        "https://wiki.test/redis/RedisDatabaseUnavailable.md"
    )
    assert len(alerts) == len(ALERTS)
    exporters = [one for one in made if one["metadata"]["name"].endswith("exporters")]
    assert exporters[0]["spec"]["namespaceSelector"] == {"matchNames": ["team"]}
    [board] = [one for one in made if one["kind"] == "ConfigMap"]
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    [text] = board["data"].values()
    places = [panel["gridPos"] for panel in json.loads(text)["panels"]]
    cells = [(p["x"] + x, p["y"] + y) for p in places for x in range(p["w"]) for y in range(p["h"])]
    assert len(cells) == len(set(cells)), "panels lie on one another"
    assert max(x for x, _ in cells) < 24


# Real Prometheus, where there is one

_BACKUP = "redis_operator_backup_schedule"
_RESTORE = "redis_operator_restore"
_SERIES = {"namespace": "shop", "name": "cache"}


def _line(metric: str, /, **labels: str) -> str:
    return metric + "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}"


def _database(figure: str, **more: str) -> str:
    return _line(f"redis_operator_database_{figure}", **_SERIES, **more)


def _server(figure: str) -> str:
    return _line(f"redis_operator_server_{figure}", **_SERIES, pod="cache-0-1")


def _ours(metric: str, /, **labels: str) -> str:
    return _line(metric, job=JOB, **labels)


CASES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    # of each alert: figures with which it fires after two hours, and figures with which it must not
    "RedisDatabaseUnavailable": (
        {_database("available"): "0x180", _database("phase", phase="Degraded"): "1x180"},
        {_database("available"): "0x180", _database("phase", phase="Hibernated"): "1x180"},
    ),
    "RedisDataLost": (
        {_database("last_data_loss_timestamp_seconds"): "3600x180"},
        {_database("last_data_loss_timestamp_seconds"): "0x180"},
    ),
    "RedisDatabaseDegraded": ({_database("degraded"): "1x180"}, {_database("degraded"): "0x180"}),
    "RedisDatabaseNotReady": (
        {_database("ready"): "0x180", _database("phase", phase="Updating"): "1x180"},
        {_database("ready"): "0x180", _database("phase", phase="Following"): "1x180"},
    ),
    "RedisFailoversTooOften": (
        {_database("last_failover_timestamp_seconds"): "0+60x180"},
        {_database("last_failover_timestamp_seconds"): "60x180"},
    ),
    "RedisVersionUnsupported": (
        {_database("version_supported"): "0x180"},
        {_database("version_supported"): "1x180"},
    ),
    "RedisBackupTooOld": (
        {_line(f"{_BACKUP}_late_after_timestamp_seconds", **_SERIES, schedule="s"): "60x180"},
        {_line(f"{_BACKUP}_late_after_timestamp_seconds", **_SERIES, schedule="s"): "99999x180"},
    ),
    "RedisBackupFailed": (
        {_line(f"{_BACKUP}_last_failed", **_SERIES, schedule="s"): "1x180"},
        {_line(f"{_BACKUP}_last_failed", **_SERIES, schedule="s"): "0x180"},
    ),
    "RedisArchiveBehind": (
        {
            _line(
                f"{_BACKUP}_archive_late_after_timestamp_seconds", **_SERIES, schedule="s"
            ): "60x180"
        },
        {
            _line(
                f"{_BACKUP}_archive_late_after_timestamp_seconds", **_SERIES, schedule="s"
            ): "0+60x180"
        },
    ),
    "RedisArchiveGap": (
        {
            _line(
                f"{_BACKUP}_archive_last_gap_timestamp_seconds", **_SERIES, schedule="s"
            ): "7000x180"
        },
        {_line(f"{_BACKUP}_archive_last_gap_timestamp_seconds", **_SERIES, schedule="s"): "60x180"},
    ),
    "RedisRestoreRollingBack": (
        {_line("redis_operator_restore_rolling_back", **_SERIES): "1x180"},
        {_line("redis_operator_restore_rolling_back", **_SERIES): "0x180"},
    ),
    "RedisRestoreFailed": (
        {_line(f"{_RESTORE}_last_failure_timestamp_seconds", **_SERIES): "60x180"},
        {_line(f"{_RESTORE}_last_failure_timestamp_seconds", **_SERIES): "0x180"},
    ),
    "RedisServerDown": ({_server("up"): "0x180"}, {_server("up"): "1x180"}),
    "RedisPersistenceFailing": (
        {_server("append_only_file_ok"): "0x180", _server("snapshot_ok"): "1x180"},
        {_server("append_only_file_ok"): "1x180", _server("snapshot_ok"): "1x180"},
    ),
    "RedisMemoryAlmostFull": (
        {
            _server("memory_used_bytes"): "95x180",
            _server("memory_max_bytes"): "100x180",
            _server("evicts"): "0x180",
        },
        {
            _server("memory_used_bytes"): "99x180",
            _server("memory_max_bytes"): "100x180",
            _server("evicts"): "1x180",
        },
    ),
    "RedisReplicaDisconnected": (
        {_server("replication_link_up"): "0x180"},
        {_server("replication_link_up"): "1x180"},
    ),
    "RedisReplicaLagging": (
        {_server("replication_lag_bytes"): f"{2**28}x180"},
        {_server("replication_lag_bytes"): f"{2**20}x180"},
    ),
    "RedisSentinelDown": (
        {_line("redis_operator_sentinel_up", **_SERIES, pod="s-0"): "0x180"},
        {_line("redis_operator_sentinel_up", **_SERIES, pod="s-0"): "1x180"},
    ),
    "RedisOperatorNotLeading": (
        {_ours("leader_election_master_status", name="redis-operator", pod="a"): "0x180"},
        {
            _ours("leader_election_master_status", name="redis-operator", pod="a"): "0x180",
            _ours("leader_election_master_status", name="redis-operator", pod="b"): "1x180",
        },
    ),
    "RedisDatabaseNotObserved": (
        {_server("observed_timestamp_seconds"): "60x180"},
        {_server("observed_timestamp_seconds"): "0+60x180"},
    ),
    "RedisOperatorReplicaDown": (
        {_ours("up", namespace="ops", pod="a"): "0x180"},
        {_ours("up", namespace="ops", pod="a"): "1x180"},
    ),
    "RedisOperatorReconcileErrors": (
        {_ours("controller_runtime_reconcile_errors_total", controller="redis"): "0+60x180"},
        {_ours("controller_runtime_reconcile_errors_total", controller="redis"): "9x180"},
    ),
    "RedisOperatorFault": (
        {
            _ours("controller_runtime_reconcile_panics_total", controller="redis"): "0+1x180",
            _ours("controller_runtime_reconcile_timeouts_total", controller="redis"): "0x180",
        },
        {
            _ours("controller_runtime_reconcile_panics_total", controller="redis"): "7x180",
            _ours("controller_runtime_reconcile_timeouts_total", controller="redis"): "7x180",
        },
    ),
    "RedisOperatorApiErrors": (
        {
            _ours("rest_client_requests_total", code="200", method="GET"): "0+60x180",
            _ours("rest_client_requests_total", code="<error>", method="GET"): "0+60x180",
        },
        {
            _ours("rest_client_requests_total", code="200", method="GET"): "0+60x180",
            _ours("rest_client_requests_total", code="409", method="PUT"): "0+60x180",
        },
    ),
    "RedisOperatorSlow": (
        {
            _ours("event_loop_lag_seconds_bucket", pod="a", le="1.0"): "0x180",
            _ours("event_loop_lag_seconds_bucket", pod="a", le="10.0"): "0+60x180",
            _ours("event_loop_lag_seconds_bucket", pod="a", le="+Inf"): "0+60x180",
        },
        {
            _ours("event_loop_lag_seconds_bucket", pod="a", le="0.1"): "0+60x180",
            _ours("event_loop_lag_seconds_bucket", pod="a", le="+Inf"): "0+60x180",
        },
    ),
}


def test_every_alert_has_a_case() -> None:
    assert {*CASES} == {alert.name for alert in ALERTS}


PROMTOOL = shutil.which("promtool")


def promtool(folder: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [str(PROMTOOL), *words], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def rules_file(folder: Path) -> None:
    [rule] = [one for one in monitoring(Options()) if one["kind"] == "PrometheusRule"]
    (folder / "rules.yaml").write_text(yaml.safe_dump(rule["spec"]))


if PROMTOOL is not None:  # else there is nobody to ask

    def test_prometheus_takes_the_rules(tmp_path: Path) -> None:
        rules_file(tmp_path)
        code, said = promtool(tmp_path, "check", "rules", "rules.yaml")
        assert code == 0, said
        assert f"{len(ALERTS)} rules found" in said

    @pytest.mark.parametrize("fires", [True, False], ids=["fires", "silent"])
    @pytest.mark.parametrize("name", CASES)
    def test_prometheus_fires_each_alert_when_it_should_and_not_else(
        name: str, fires: bool, tmp_path: Path
    ) -> None:
        rules_file(tmp_path)
        figures = CASES[name][0 if fires else 1]
        series = [
            {"series": line, "values": values if "+" in values else values.replace("x", "+0x")}
            for line, values in figures.items()
        ]
        check = {
            "expr": f'count(ALERTS{{alertname="{name}", alertstate="firing"}}) or vector(0)',
            "eval_time": "2h",
            "exp_samples": [{"labels": "{}", "value": 1 if fires else 0}],
        }
        case = {
            "rule_files": ["rules.yaml"],
            "evaluation_interval": "1m",
            "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": [check]}],
        }
        (tmp_path / "case.yaml").write_text(yaml.safe_dump(case))
        code, said = promtool(tmp_path, "test", "rules", "case.yaml")
        assert code == 0, said


# In a cluster

MONITORS: Kind[Manifest] = Kind(
    "monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors", True, dict
)
RULES: Kind[Manifest] = Kind(
    "monitoring.coreos.com", "v1", "PrometheusRule", "prometheusrules", True, dict
)


def definition(kind: Kind[Manifest]) -> Manifest:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {
                "kind": kind.kind,
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                "listKind": f"{kind.kind}List",
            },
            "versions": [version],
        },
    }


async def serve_monitoring(cluster: SmallCluster) -> None:
    """Do what the Prometheus Operator's installation does first."""
    for kind in (MONITORS, RULES):
        await cluster.client.apply(CUSTOM_RESOURCE_DEFINITIONS.plain(), definition(kind))


async def monitored(cluster: SmallCluster) -> list[str]:
    found = []
    for kind in (MONITORS, RULES):
        try:
            page = await cluster.client.list(kind)
        except NotFound:
            continue
        found += [f"{kind.kind} {raw['metadata']['name']}" for raw in page.items]
    return sorted(found)


ALL = [
    "PrometheusRule redis-operator",
    "ServiceMonitor redis-operator",
    "ServiceMonitor redis-operator-exporters",
]
BOARD = ("redis-operator", "redis-operator-dashboard")


async def test_made_where_the_kinds_are_served_and_pruned_when_switched_off() -> None:
    async with small_cluster() as cluster:
        await cluster.installer().install(Options())
        assert await monitored(cluster) == []
        assert "ServiceMonitor redis-operator in namespace redis-operator: left out, this " in (
            "\n".join(cluster.told)
        )
        await cluster.client.get(CONFIG_MAPS, BOARD)
        await serve_monitoring(cluster)
        await cluster.installer().install(Options())
        assert await monitored(cluster) == ALL
        off = Options(monitoring=MonitoringOptions(install=False))
        await cluster.installer().install(off)
        assert await monitored(cluster) == []
        with pytest.raises(NotFound):
            await cluster.client.get(CONFIG_MAPS, BOARD)


async def test_removed_with_the_operator() -> None:
    async with small_cluster() as cluster:
        await serve_monitoring(cluster)
        await cluster.installer().install(Options())
        await cluster.remover().uninstall("redis-operator")
        assert await monitored(cluster) == []
