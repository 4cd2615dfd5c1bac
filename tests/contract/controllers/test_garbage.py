"""Owners and what they own; namespaces and what is in them."""

from __future__ import annotations

from typing import Any

from contract.controllers.workloads import World


def owner(world: World, name: str = "owner", **metadata: Any) -> dict[str, Any]:
    made = world.create("configmaps", {"metadata": {"name": name, **metadata}})
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": made["metadata"]["uid"]}


def owned(world: World, name: str, *owners: dict[str, Any], **metadata: Any) -> None:
    world.create(
        "secrets", {"metadata": {"name": name, "ownerReferences": list(owners), **metadata}}
    )


def gone(world: World, what: str) -> None:
    world.until(f"{what} is gone", lambda: world.get(what).status == 404)


def test_background_deletion_takes_what_is_owned(world: World) -> None:
    owned(world, "child", owner(world))
    world.delete("configmaps/owner", propagationPolicy="Background").done()
    gone(world, "secrets/child")


def test_grandchildren_go_too(world: World) -> None:
    owned(world, "child", owner(world))
    uid = world.read("secrets/child")["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "Secret", "name": "child", "uid": uid}
    owned(world, "grandchild", reference)
    world.delete("configmaps/owner").done()
    gone(world, "secrets/grandchild")


def test_foreground_deletion_waits_for_what_is_owned(world: World) -> None:
    reference = {**owner(world), "blockOwnerDeletion": True}
    owned(world, "child", reference, finalizers=["contract.test/hold"])
    world.delete("configmaps/owner", propagationPolicy="Foreground").done()
    world.until(
        "the child is being deleted",
        lambda: "deletionTimestamp" in world.read("secrets/child")["metadata"],
    )
    waiting = world.read("configmaps/owner")["metadata"]
    assert waiting["finalizers"] == ["foregroundDeletion"]
    assert "deletionTimestamp" in waiting
    world.patch("secrets/child", {"metadata": {"finalizers": None}}).done()
    gone(world, "configmaps/owner")


def test_foreground_deletion_does_not_wait_for_what_does_not_block(world: World) -> None:
    owned(world, "child", owner(world), finalizers=["contract.test/hold"])
    world.delete("configmaps/owner", propagationPolicy="Foreground").done()
    gone(world, "configmaps/owner")
    world.patch("secrets/child", {"metadata": {"finalizers": None}}).done()
    gone(world, "secrets/child")


def test_orphaning_leaves_what_was_owned(world: World) -> None:
    owned(world, "child", owner(world))
    world.delete("configmaps/owner", propagationPolicy="Orphan").done()
    gone(world, "configmaps/owner")
    assert "ownerReferences" not in world.read("secrets/child")["metadata"]


def test_second_owner_keeps_what_is_owned(world: World) -> None:
    first, second = owner(world, "first"), owner(world, "second")
    owned(world, "child", first, second)
    world.delete("configmaps/first").done()
    world.until(
        "one owner is left",
        lambda: (
            [each["name"] for each in world.read("secrets/child")["metadata"]["ownerReferences"]]
            == ["second"]
        ),
    )
    world.delete("configmaps/second").done()
    gone(world, "secrets/child")


def test_owner_that_never_was_is_as_gone(world: World) -> None:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "never", "uid": "no-such-uid"}
    owned(world, "child", reference)
    gone(world, "secrets/child")


def test_owner_of_the_same_name_but_another_uid_is_as_gone(world: World) -> None:
    reference = {**owner(world), "uid": "another-uid"}
    owned(world, "child", reference)
    gone(world, "secrets/child")


def test_deleted_namespace_takes_everything(world: World) -> None:
    owner(world)
    world.run_pod("p", world.pod_spec())
    world.running("p")
    world.delete(f"namespaces/{world.name}").done()
    gone(world, f"namespaces/{world.name}")
    gone(world, "pods/p")
    gone(world, "configmaps/owner")


def test_held_object_holds_its_namespace(world: World) -> None:
    world.create("secrets", {"metadata": {"name": "held", "finalizers": ["contract.test/hold"]}})
    world.delete(f"namespaces/{world.name}").done()

    def remaining() -> bool:
        listed = world.read(f"namespaces/{world.name}")["status"].get("conditions", [])
        found = {each["type"]: each for each in listed}
        kind = found.get("NamespaceFinalizersRemaining", {})
        return kind.get("status") == "True" and kind["reason"] == "SomeFinalizersRemain"

    world.until("the namespace says what remains", remaining)
    world.patch("secrets/held", {"metadata": {"finalizers": None}}).done()
    gone(world, f"namespaces/{world.name}")


def test_namespace_has_an_account_and_the_root_certificate(world: World) -> None:
    world.read("serviceaccounts/default")
    found = world.until(
        "the certificate is there",
        lambda: (
            world.get("configmaps/kube-root-ca.crt").status == 200
            and world.read("configmaps/kube-root-ca.crt")
        ),
    )
    assert found["data"]["ca.crt"].startswith("-----BEGIN CERTIFICATE-----")


def test_deleted_account_comes_back(world: World) -> None:
    before = world.read("serviceaccounts/default")["metadata"]["uid"]
    world.delete("serviceaccounts/default").done()

    def back() -> bool:
        found = world.get("serviceaccounts/default")
        return found.status == 200 and found.json["metadata"]["uid"] != before

    world.until("another default account", back)
