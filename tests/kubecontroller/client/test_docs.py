"""The page on the client, run: its snippets in order, in one coroutine, on an API server."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from kubelocal.apiserver.daemon import Daemon

PAGE = Path(__file__).resolve().parents[3] / "docs" / "kubecontroller" / "client.md"


async def test_the_snippets_of_the_page_run_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snippets = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(snippets) > 8
    source = "async def page():\n" + textwrap.indent("\n".join(snippets), "    ")
    scope: dict[str, Any] = {"__name__": "page"}
    exec(compile(source, str(PAGE), "exec"), scope)
    server = Daemon(tmp_path / "data")
    await server.start()
    try:
        file = tmp_path / "kubeconfig"
        file.write_text(server.kubeconfig())
        monkeypatch.setenv("KUBECONFIG", str(file))
        await scope["page"]()
    finally:
        await server.stop()


def test_every_test_file_the_page_names_exists() -> None:
    for name in re.findall(r"test_\w+\.py", PAGE.read_text()):
        assert (PAGE.parents[2] / "tests" / "kubecontroller" / "client" / name).exists(), name
