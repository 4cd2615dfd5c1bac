"""`down` ends everything of a local cluster, also what a killed supervisor left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubelocal.instance import Settings
from redis_operator.cli.app import app
from redis_operator.cli.local_cluster import INSTANCES


def processes_of(home: Path) -> list[int]:
    """The processes whose environment or arguments name a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if str(home).encode() in words and int(process.name) != os.getpid():
            found.append(int(process.name))
    return found


@pytest.mark.timeout(180)
def test_all_processes_end_also_when_their_supervisor_was_killed(tmp_path: Path) -> None:
    environment = {**os.environ, "REDIS_OPERATOR_HOME": str(tmp_path)}

    def run(*words: str) -> None:
        command = [sys.executable, "-m", "redis_operator.cli.main", *words, "--name", "down"]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=90, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    try:
        run("up", "--detach")
        pid = int((tmp_path / "down/supervisor.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
    finally:
        run("down", "--purge")
    left = processes_of(tmp_path)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []
    assert not (tmp_path / "down").exists()


def test_data_of_a_control_plane_that_still_runs_are_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_OPERATOR_HOME", str(tmp_path))
    instance = INSTANCES.find("one")
    with INSTANCES.choosing():
        number = INSTANCES.free_network()
        with INSTANCES.hold_network(number):
            instance.save(Settings(network=number))
            instance.pid_file.write_text("1 1")  # of a supervisor that was killed
            refused = CliRunner().invoke(app, ["down", "--name", "one", "--purge"])
            assert refused.exit_code == 1
            assert "its data is not deleted" in refused.output
            assert instance.settings() is not None
        done = CliRunner().invoke(app, ["down", "--name", "one", "--purge"])
    assert done.exit_code == 0, done.output
    assert not instance.folder.exists()
