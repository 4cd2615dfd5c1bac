"""Every process of a local cluster writes a log that can be read."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest


@pytest.mark.timeout(120)
def test_every_process_writes_a_log(tmp_path: Path) -> None:
    environment = {**os.environ, "REDIS_OPERATOR_HOME": str(tmp_path)}

    def run(*words: str) -> str:
        command = [sys.executable, "-m", "redis_operator.cli.main", *words, "--name", "logged"]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=90, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("up", "--detach")
    try:
        wanted = {
            "supervisor": "started a process process=operator",
            "control-plane": "serving url=https://",
            "node-agent": "mounts by",
            "operator": "workers started",
            "keeper": "keeper started",
        }
        deadline = time.monotonic() + 60
        for component, text in wanted.items():
            while text not in run("logs", component):
                assert time.monotonic() < deadline, f"{component}: {run('logs', component)}"
                time.sleep(0.1)
        together = run("logs")
        assert all(text in together for text in wanted.values())
    finally:
        run("down", "--purge")
