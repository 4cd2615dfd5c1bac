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
@pytest.mark.timeout(420)
@pytest.mark.parametrize(
    ("page", "instances", "shown"),
    [
        ("tutorial.md", ["tutorial"], "redis://default:"),
        ("how-to/restore.md", ["first", "second"], "\nhello\n"),
        ("how-to/schedule-backups.md", ["scheduled"], "\nrestored from often-"),
    ],
)
def test_every_command_of_the_page_works_in_order(
    tmp_path: Path, page: str, instances: list[str], shown: str
) -> None:
    text = (ROOT / "docs" / page).read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    script = "\n".join(block for block in blocks if "make setup" not in block)
    script = f"trap 'kill $(jobs -p) 2>/dev/null || :' EXIT\n{script}"  # a store that was started
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
            timeout=400,
        )
    finally:
        for instance in instances:
            subprocess.run(
                [*_COMMAND, "down", "--name", instance, "--purge"],
                env=environment,
                capture_output=True,
                check=False,
            )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert shown in done.stdout
