"""What the types promise to users: checked by mypy, on code that must and must not pass."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PREAMBLE = """
from __future__ import annotations
from redis_operator.kube.client import Client
from redis_operator.kube.meta import Manifest
from redis_operator.kube.objects import PODS, SECRETS, Pod

KEY = ("a", "b")


async def use(client: Client, pod: Pod, manifest: Manifest) -> None:
"""

ALLOWED = [
    (
        "whole: Manifest = await client.get(PODS.plain(), KEY)\n    "
        "await client.replace(PODS.plain(), whole)"
    ),
    "got: Pod = await client.get(PODS, KEY)",
    "made: Pod = await client.create(PODS, manifest)",
    "items: tuple[Pod, ...] = (await client.list(PODS)).items",
    "gone: Pod | None = await client.delete(PODS, KEY)",
]

FORBIDDEN = {
    "a projected object cannot be replaced": ("await client.replace(PODS, pod)", "arg-type"),
    "nor under a plain kind": ("await client.replace(PODS.plain(), pod)", "arg-type"),
    "nor a plain value under a projected kind": (
        "await client.replace(PODS, manifest)",
        "arg-type",
    ),
    "a projected object cannot be created": ("await client.create(PODS, pod)", "arg-type"),
    "nor applied": ("await client.apply(PODS, pod)", "arg-type"),
    "a projected object cannot be changed": ("pod.status = pod.status", "misc"),
    "kinds are not mixed up": ("got: Pod = await client.get(SECRETS, KEY)", "arg-type"),
}


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Run mypy once over all snippets and return what it says of each."""
    folder = tmp_path_factory.mktemp("typing")
    snippets = {f"good_{i}": text for i, text in enumerate(ALLOWED)}
    snippets |= {f"bad_{i}": text for i, (text, _) in enumerate(FORBIDDEN.values())}
    files = []
    for name, text in snippets.items():
        files.append(folder / f"{name}.py")
        files[-1].write_text(f"{PREAMBLE}    {text}\n")
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--no-error-summary",
            f"--cache-dir={folder / 'cache'}",
            f"--config-file={ROOT / 'pyproject.toml'}",
            *map(str, files),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    said = dict.fromkeys(snippets, "")
    for line in result.stdout.splitlines():
        name = Path(line.partition(":")[0]).stem
        assert name in said, line
        said[name] += line
    return said


@pytest.mark.parametrize("index", range(len(ALLOWED)), ids=lambda i: ALLOWED[i].split("\n")[0])
def test_what_is_meant_to_work_type_checks(complaints: dict[str, str], index: int) -> None:
    assert complaints[f"good_{index}"] == ""


@pytest.mark.parametrize("title", FORBIDDEN)
def test_what_must_not_be_written_does_not_type_check(
    complaints: dict[str, str], title: str
) -> None:
    index = list(FORBIDDEN).index(title)
    assert f"[{FORBIDDEN[title][1]}]" in complaints[f"bad_{index}"]
