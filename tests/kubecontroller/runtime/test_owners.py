"""§6.11, owners."""

from __future__ import annotations

import pytest

from kubecontroller.client.scheme import Kind
from kubecontroller.runtime.owners import adopt, owned, owner_reference, ownership_limitation

ZONE = Kind("example.dev", "v1", "Zone", "zones", False, dict)
OTHER = {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u-x", "controller": True}


async def test_the_controller_blocks_its_own_deletion_until_the_child_is_gone(
    client, kind, manifest
):
    owner = await client.create(kind, manifest("o"))
    assert owner_reference(kind, owner) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "o",
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    assert "controller" not in owner_reference(kind, owner, controller=False)


def test_an_owner_without_uid_cannot_own(kind, manifest):
    with pytest.raises(ValueError, match="no uid"):
        owner_reference(kind, manifest("o"))


async def test_a_child_has_one_controller(client, kind, manifest):
    owner = await client.create(kind, manifest("o"))
    taken = manifest("c", ownerReferences=[OTHER])
    assert "controlled by X x already" in ownership_limitation(kind, owner, taken)
    with pytest.raises(ValueError, match="c: it is controlled by X x"):
        owned(kind, owner, taken)


async def test_an_owner_does_not_reach_into_another_namespace(client, kind, manifest):
    owner = await client.create(kind, manifest("o"))
    child = manifest("c", namespace="other")
    assert "an owner must be in the namespace of its child" in ownership_limitation(
        kind, owner, child
    )
    cluster_wide = {"metadata": {"name": "c"}}
    assert ownership_limitation(kind, owner, cluster_wide) is not None


async def test_a_cluster_scoped_owner_may_own_anywhere(client, manifest):
    zone = {"metadata": {"name": "z", "uid": "u-z"}}
    assert ownership_limitation(ZONE, zone, manifest("c")) is None


async def test_owning_twice_changes_nothing_and_other_owners_stay(client, kind, manifest):
    owner = await client.create(kind, manifest("o"))
    plain = {"apiVersion": "v1", "kind": "Y", "name": "y", "uid": "u-y"}
    once = owned(kind, owner, manifest("c", ownerReferences=[plain]))
    assert owned(kind, owner, once) == once
    assert [r["name"] for r in once["metadata"]["ownerReferences"]] == ["y", "o"]


async def test_an_orphan_is_adopted_after_a_live_look_at_the_owner(client, kind, manifest):
    owner = await client.create(kind, manifest("o"))
    orphan = await client.create(kind, manifest("c"))
    assert await adopt(client, kind, owner, kind, orphan) is None
    adopted = await client.get(kind, ("default", "c"))
    assert adopted.metadata.owner_references[0].uid == owner.metadata.uid


@pytest.mark.parametrize(
    ("happening", "why"),
    [
        ("gone", "the owner is gone"),
        ("again", "another object of the same name"),
        ("deleting", "the owner is being deleted"),
        ("taken", "it has a controller"),
        ("going", "it is being deleted"),
    ],
)
async def test_an_orphan_is_not_adopted_when_the_live_owner_is_not_the_cached_one(
    client, kind, manifest, happening, why
):
    owner = await client.create(
        kind, manifest("o", finalizers=["x/y"] if happening == "deleting" else [])
    )
    orphan = await client.create(
        kind,
        manifest(
            "c",
            ownerReferences=[OTHER] if happening == "taken" else [],
            finalizers=["x/y"] if happening == "going" else [],
        ),
    )
    if happening in {"gone", "again", "deleting"}:
        await client.delete(kind, ("default", "o"))
    if happening == "again":
        await client.create(kind, manifest("o"))
    if happening == "going":
        orphan = await client.delete(kind, ("default", "c"))
    limitation = await adopt(client, kind, owner, kind, orphan)
    assert why in limitation
