"""The cookbook, run: each recipe by itself, in a coroutine, on an API server of its own."""

from __future__ import annotations

import asyncio
import inspect
import re
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

import kubecontroller as kc
from kubecontroller.client.request import JSON, Request, object_path
from kubelocal.apiserver.daemon import Daemon

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "kubecontroller" / "cookbook.md").read_text()
README = (ROOT / "src" / "kubecontroller" / "README.md").read_text()
WEBSITE = (ROOT / "examples" / "website" / "website.py").read_text()
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
BEGINNING, *SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
RECIPES = {section.partition("\n")[0]: BLOCK.findall(section) for section in SECTIONS}


@asynccontextmanager
async def running(manager: kc.Manager) -> AsyncIterator[None]:
    task = asyncio.create_task(manager.run())
    try:
        yield
    finally:
        manager.request_stop()
        await task


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(10):
        while True:
            found = condition()
            if inspect.isawaitable(found):
                found = await found
            if found:
                return
            await asyncio.sleep(0.01)


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[kc.Manager]:
    server = Daemon(tmp_path / "data")
    await server.start()
    file = tmp_path / "kubeconfig"
    file.write_text(server.kubeconfig())
    client = kc.Client(kc.HttpTransport(kc.load(file=str(file))), field_manager="lamps")
    try:
        yield kc.Manager(client, name="lamps", linger=0.0)
    finally:
        await client.close()
        await server.stop()


async def token_of(client: kc.Client, namespace: str, account: str) -> str:
    path = object_path(
        "", "v1", "serviceaccounts", namespace=namespace, name=account, subresource="token"
    )
    headers = (("accept", JSON), ("content-type", JSON))
    request = Request("POST", path, headers=headers, body=b'{"spec": {}}')
    response = await client.transport.request(request, timeout=10)
    return str(msgspec.json.decode(response.body)["status"]["token"])


def test_the_cookbook_has_a_dozen_recipes_of_one_block_each() -> None:
    assert len(RECIPES) >= 12
    assert {name for name, blocks in RECIPES.items() if len(blocks) != 1} == set()


@pytest.mark.parametrize("name", RECIPES)
async def test_the_recipe_runs(name: str, manager: kc.Manager) -> None:
    (beginning,) = BLOCK.findall(BEGINNING)
    recipe = "async def recipe():\n" + textwrap.indent(RECIPES[name][0], "    ")
    scope = {"manager": manager, "client": manager.client, "running": running, "until": until}
    scope["token_of"] = partial(token_of, manager.client)
    for source in (beginning, recipe):
        exec(compile(source, f"cookbook: {name}", "exec", dont_inherit=True), scope)
    await scope["recipe"]()  # type: ignore[operator]  # raises where an assertion of it fails


def test_the_readme_shows_the_whole_example_operator() -> None:
    (shown,) = BLOCK.findall(README)
    assert shown == WEBSITE
