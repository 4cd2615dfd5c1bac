"""`up` of a cluster that runs already, and what a shell can run of its output."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kubelocal.instance import SUPERVISOR, Instance, Settings
from kubelocal.loopback import held_number
from redis_operator.cli.local_cluster import INSTANCES

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    def call(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "redis_operator.cli.main", *words, "--name", "up"]
        return subprocess.run(
            command,
            env={**os.environ, "REDIS_OPERATOR_HOME": str(tmp_path), **variables},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    try:
        yield call
    finally:
        call("down", "--purge")


@pytest.fixture
def own_addresses(tmp_path: Path) -> int:
    """The cluster gets the network that this process holds.

    Any other cluster could choose that of a stopped one, whose folder it does not know.
    """
    Instance("up", tmp_path / "up").save(Settings(network=held_number()))
    return held_number()


@pytest.mark.timeout(300)
def test_settings_that_a_running_cluster_does_not_have_are_refused(
    run: Run, tmp_path: Path
) -> None:
    begun = run("up", "--detach", "--nodes", "2", "--without-operator")
    export = f"export KUBECONFIG={tmp_path}/up/kubeconfig\n"
    assert (begun.returncode, begun.stdout) == (0, export), begun.stderr  # for eval in a shell
    for words in (("--nodes", "3"), ("--zones", "1"), ("--with-operator",)):
        refused = run("up", "--detach", *words)
        assert refused.returncode == 1
        assert words[0] in refused.stderr
        assert "redis-operator down --name up" in refused.stderr
    same = run("up", "--detach", "--nodes", "2")
    assert (same.returncode, same.stdout) == (0, export)


@pytest.mark.timeout(300)
def test_a_machine_that_starts_processes_slowly_is_waited_for(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "slow"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import sys, time\nif 'supervise' in sys.orig_argv:\n    time.sleep(7)\n"
    )
    begun = run("up", "--detach", "--without-operator", PYTHONPATH=str(folder))
    assert begun.returncode == 0, begun.stderr


@pytest.mark.timeout(300)
@pytest.mark.parametrize("words", [[], ["--detach"]], ids=["in the foreground", "detached"])
def test_a_cluster_that_never_gets_ready_keeps_no_other_from_starting(
    run: Run, tmp_path: Path, words: list[str]
) -> None:
    """Nor those of other users: all clusters of a machine choose their addresses in turn."""
    folder = tmp_path / "hanging"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import sys, time\nif 'control-plane' in sys.orig_argv:\n    time.sleep(600)\n"
    )
    home = tmp_path / "other"
    command = [sys.executable, "-m", "redis_operator.cli.main", "up", "--name", "up", *words]
    more = {"PYTHONPATH": str(folder), "REDIS_OPERATOR_HOME": str(home)}
    with subprocess.Popen(
        command, env={**os.environ, **more}, stderr=subprocess.DEVNULL
    ) as hanging:
        try:
            while not (home / "up/supervisor.pid").exists():
                assert hanging.poll() is None
                time.sleep(0.02)
            begun = time.monotonic()
            started = run("up", "--detach", "--without-operator")
            assert started.returncode == 0, started.stderr
            assert time.monotonic() - begun < 45, "half as long as others are waited for"
        finally:
            hanging.terminate()
            run("down", "--purge", REDIS_OPERATOR_HOME=str(home))


@pytest.mark.timeout(300)
def test_a_supervisor_that_cannot_start_is_reported_with_its_log(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if 'supervise' in sys.orig_argv:\n"
        "    print('no such luck', file=sys.stderr, flush=True)\n"
        "    os._exit(1)\n"
    )
    refused = run("up", "--detach", PYTHONPATH=str(folder))
    assert refused.returncode == 1
    assert "no such luck" in refused.stderr


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("own_addresses")
def test_a_cluster_without_the_operator_gets_it_back(run: Run, tmp_path: Path) -> None:
    assert run("up", "--detach", "--without-operator").returncode == 0
    assert run("down").returncode == 0
    assert not (tmp_path / "up" / "logs" / "operator.log").exists()
    assert run("up", "--detach", "--with-operator").returncode == 0
    assert (tmp_path / "up" / "logs" / "operator.log").exists()


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("own_addresses")
def test_nodes_are_added_and_never_removed(run: Run) -> None:
    assert run("up", "--detach", "--without-operator", "--nodes", "2").returncode == 0
    assert run("down").returncode == 0
    refused = run("up", "--detach", "--nodes", "1")
    assert refused.returncode == 1
    assert "has 2 nodes, and cannot have fewer" in refused.stderr
    assert run("up", "--detach", "--nodes", "3").returncode == 0


def test_without_a_kubeconfig_every_program_says_so_in_a_line(tmp_path: Path) -> None:
    for words in (["run"], ["installer"]):
        done = subprocess.run(
            [sys.executable, "-m", "redis_operator.cli.main", *words, "--kubeconfig", "/nowhere"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 1
        [line] = done.stderr.splitlines()
        assert line.startswith("redis-operator: /nowhere: no such file")


def test_addresses_that_another_cluster_took_meanwhile_are_named(
    run: Run, own_addresses: int
) -> None:
    with INSTANCES.hold_network(own_addresses, by=SUPERVISOR):
        refused = run("up", "--detach")
    assert refused.returncode == 1
    [line] = refused.stderr.splitlines()
    assert f"uses the addresses 127.{own_addresses}.x.y; stop it first" in line
