"""Disks of the tests' own: one that can be filled, and storage classes that can or cannot grow."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.clusters import until
from kubecontroller.client.errors import NotFound
from kubecontroller.client.objects import PERSISTENT_VOLUME_CLAIMS, STATEFUL_SETS, STORAGE_CLASSES

__all__ = ["Disk", "class_like_default", "disk", "requested_gib", "wait_template_size"]


class Disk:
    """A disk of 64 MiB that the volumes of a local cluster are on, and a file that fills it."""

    def __init__(self, folder: Path) -> None:
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        with self._ballast.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                return

    def make_room(self) -> None:
        self._ballast.unlink(missing_ok=True)


@pytest.fixture
def disk(cluster: Any) -> Iterator[Disk]:
    """Return the disk of every volume that is made from now on."""
    if not cluster.is_local or os.geteuid():
        pytest.skip("disks of a local cluster are made by root")
    folder = cluster.folder / cluster.name / "node" / "volumes"
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m,mode=755", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    made = Disk(folder)
    yield made
    made.make_room()
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@asynccontextmanager
async def class_like_default(client: Any, name: str, *, grows: bool) -> Any:
    """Make a storage class like the default one, whose volumes can or cannot grow."""
    default = await _default_class(client)
    made = {
        **{k: v for k, v in default.items() if k not in ("metadata", "apiVersion", "kind")},
        "metadata": {"name": name},
        "allowVolumeExpansion": grows,
    }
    await client.create(STORAGE_CLASSES.plain(), made)
    try:
        yield name
    finally:
        await client.delete(STORAGE_CLASSES, ("", name))


async def _default_class(client: Any) -> Any:
    marked = "storageclass.kubernetes.io/is-default-class"
    classes = (await client.list(STORAGE_CLASSES.plain())).items
    return next(
        c for c in classes if (c["metadata"].get("annotations") or {}).get(marked) == "true"
    )


async def requested_gib(cache: Any) -> set[float]:
    """Return which sizes the claims of a database ask for."""
    found = set()
    for name in await cache.claims():
        claim = await cache.client.get(PERSISTENT_VOLUME_CLAIMS.plain(), (cache.namespace, name))
        found.add(_gib(claim["spec"]["resources"]["requests"]["storage"]))
    return found


async def wait_template_size(cache: Any, workload: str, size: str) -> None:
    """Wait until volumes of new pods would have this size: the StatefulSet is recreated for it."""

    async def has_size() -> bool:
        try:
            found = await cache.client.get(STATEFUL_SETS.plain(), (cache.namespace, workload))
        except NotFound:
            return False
        template = found["spec"]["volumeClaimTemplates"][0]
        return bool(template["spec"]["resources"]["requests"]["storage"] == size)

    await until(has_size, seconds=30, what=f"the template of {workload} to ask for {size}")


def _gib(size: str) -> float:
    if size.endswith("Gi"):
        return float(size.removesuffix("Gi"))
    return int(size) / 2**30
