from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_COMMAND = (sys.executable, "-m", "redis_operator.cli.main")


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_every_command_of_the_tutorial_works_in_order(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "tutorial.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    script = "\n".join(block for block in blocks if "make setup" not in block)
    environment = {
        **os.environ,
        "REDIS_OPERATOR_HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    environment.pop("KUBECONFIG", None)
    try:
        done = subprocess.run(
            ["bash", "-euxo", "pipefail", "-c", script],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
        )
    finally:
        subprocess.run(
            [*_COMMAND, "down", "--name", "tutorial", "--purge"],
            env=environment,
            capture_output=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "redis://default:" in done.stdout
