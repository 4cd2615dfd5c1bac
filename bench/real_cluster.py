"""A real cluster named by its kubeconfig, with the operator beside it as a local process."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kubecontroller.client.api import Client
from kubecontroller.client.config import load
from kubecontroller.client.http import HttpTransport
from kubecontroller.client.objects import CUSTOM_RESOURCE_DEFINITIONS
from redis_operator.api.crd import crds

__all__ = ["named_kubeconfig", "real_cluster", "served_version"]


def named_kubeconfig() -> str:
    """Return the kubeconfig of the real cluster to measure on; empty when none was named."""
    return os.environ.get("BENCH_KUBECONFIG") or os.environ.get("KUBECONFIG") or ""


def served_version() -> dict[str, str]:
    """Return the version and the image that a database there is made with (`BENCH_IMAGE`)."""
    image = os.environ.get("BENCH_IMAGE", "valkey:8.1.1")
    engine, _, tag = image.rpartition("/")[2].partition(":")
    return {"engine": engine, "version": ".".join(tag.split(".")[:2]), "image": image}


@asynccontextmanager
async def real_cluster(kubeconfig: str) -> AsyncIterator[Client]:
    """Install the definitions, run the operator here, and give a client; pods must be reachable."""
    client = Client(HttpTransport(load(file=kubeconfig)), field_manager="bench")
    operator: Process | None = None
    try:
        for definition in crds().values():
            await client.apply(CUSTOM_RESOURCE_DEFINITIONS.plain(), definition)
        operator = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "redis_operator.cli.main", "run"),
            *("--kubeconfig", kubeconfig, "--no-election", "--health-port", "0"),
            stdout=DEVNULL,
            stderr=DEVNULL,
        )
        yield client
    finally:
        if operator is not None:
            operator.terminate()
            await operator.wait()
        await client.close()
