"""A namespace that was deleted with its databases, while the volumes were retained. T-09"""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from e2e.harness import Database
from kubecontroller.client.objects import STORAGE_CLASSES
from redis_operator.manifests.names import DATABASE_LABEL, IDENTITY_ANNOTATION

pytestmark = pytest.mark.e2e

DEFAULT = "storageclass.kubernetes.io/is-default-class"


async def _retaining_class(client: Any) -> str:
    """Make a storage class like the default one whose volumes stay."""
    page = await client.list(STORAGE_CLASSES.plain())
    default = next(
        c for c in page.items if (c["metadata"].get("annotations") or {}).get(DEFAULT) == "true"
    )
    name = f"kept-{uuid.uuid4().hex[:8]}"
    kept = {
        "metadata": {"name": name},
        "provisioner": default["provisioner"],
        "reclaimPolicy": "Retain",
        "volumeBindingMode": default.get("volumeBindingMode", "Immediate"),
        "allowVolumeExpansion": default.get("allowVolumeExpansion", False),
    }
    await client.create(STORAGE_CLASSES.plain(), kept)
    return name


async def test_a_namespace_recreated_has_its_database_back_from_retained_volumes(
    cluster: Any,
) -> None:
    """By the steps of docs/recovery.md and with nothing but kubectl."""
    client = cluster.client()
    namespace = f"e2e-{uuid.uuid4().hex[:8]}"
    await cluster.create_namespace(client, namespace)
    storage_class = await _retaining_class(client)
    spec = {
        "storage": {"size": "1Gi", "className": storage_class},
        "durability": {"persistence": "aof"},
    }
    cache = Database(cluster, client, namespace, "cache")
    try:
        await cache.apply(**spec)
        await cache.wait_ready(seconds=90)
        application = await cache.fill(300)
        identity = (await cache.get())["metadata"]["uid"]
        await cluster.delete_namespace(client, namespace)
        volumes = _released(cluster, namespace)
        assert len(volumes) == 6
        await cluster.create_namespace(client, namespace)
        for volume in volumes:
            free = {"spec": {"claimRef": {"uid": None, "resourceVersion": None}}}
            cluster.kubectl("patch", "pv", volume["metadata"]["name"], "-p", json.dumps(free))
            cluster.kubectl("apply", "-f", "-", stdin=json.dumps(_claim(volume, identity)))
        await cache.apply(**spec)
        await cache.wait_ready(seconds=120)
        assert await cache.check(application) == []
        assert not _released(cluster, namespace)
    finally:
        await cache.close()
        await cluster.delete_namespace(client, namespace)
        for volume in _released(cluster, namespace):
            cluster.kubectl("delete", "pv", volume["metadata"]["name"])
        cluster.kubectl("delete", "storageclass", storage_class)
        await client.close()


def _released(cluster: Any, namespace: str) -> list[Any]:
    found = json.loads(cluster.kubectl("get", "pv", "-o", "json"))["items"]
    return [
        volume
        for volume in found
        if (volume["spec"].get("claimRef") or {}).get("namespace") == namespace
        and volume["status"]["phase"] == "Released"
    ]


def _claim(volume: Any, identity: str) -> dict[str, Any]:
    spec = volume["spec"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": spec["claimRef"]["name"],
            "namespace": spec["claimRef"]["namespace"],
            "labels": {DATABASE_LABEL: "cache"},
            "annotations": {IDENTITY_ANNOTATION: identity},
        },
        "spec": {
            "accessModes": spec["accessModes"],
            "resources": {"requests": {"storage": spec["capacity"]["storage"]}},
            "storageClassName": spec["storageClassName"],
            "volumeName": volume["metadata"]["name"],
        },
    }
