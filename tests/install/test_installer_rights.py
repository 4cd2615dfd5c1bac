"""The installer's own rights are those that it uses, none more and none less.

It also holds what the operator and its users may do, since only who has a right can hand it out.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from install.calls import Recording, Right
from install.managed.test_managed import ACCOUNT, KEY, Managed
from install.monitoring.test_monitoring import serve_monitoring
from kubecontroller.client.api import Client
from kubecontroller.client.objects import NAMESPACES
from kubecontroller.client.patches import MergePatch
from kubecontroller.runtime.manager import Manager
from kubelocal.apiserver.inprocess import InProcessTransport
from redis_operator.install.managed.main import add_installations
from redis_operator.install.managed.objects import installer_objects
from redis_operator.install.managed.reconcile import REDIS_OPERATORS
from redis_operator.install.options import Options
from redis_operator.install.rights import (
    BUNDLE_RIGHTS,
    CERTIFICATE_RIGHTS,
    CLUSTER_RIGHTS,
    DATABASE_RIGHTS,
    ELECTION_RIGHTS,
    REVIEW_RIGHTS,
    USER_RIGHTS,
    Rule,
)
from support.small_cluster import small_cluster

HOME = "redis-operator"
POLICIES = "admissionregistration.k8s.io"
NOT_PLAYED: dict[Right, str] = {
    (POLICIES, name, "create"): "this cluster does not serve the kind"
    for name in ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
}


def rights(*rules: Rule) -> set[Right]:
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
        for verb in rule["verbs"]
    }


def granted(kind: str) -> set[Right]:
    made = installer_objects(Options())
    name = "redis-operator-installer"
    return rights(
        *(
            rule
            for one in made
            if (one["kind"], one["metadata"]["name"]) == (kind, name)
            for rule in one["rules"]
        )
    )


class Recorded(Managed):
    """An installer whose calls are noted; test_used_rights.py has those of an election."""

    def __init__(self, cluster: Any, seen: set[Right], *, streams: bool) -> None:
        super().__init__(cluster)
        self.seen, self.streams = seen, streams

    def begin(self) -> asyncio.Task[None]:
        own = InProcessTransport(self.cluster.server, user=ACCOUNT)
        client = Client(
            Recording(own, self.seen, streams=self.streams), field_manager="redis-operator-install"
        )
        manager = Manager(client, name="installer")
        add_installations(manager, HOME)
        return asyncio.create_task(manager.run())


async def _life(one: Recorded) -> None:
    """Install, watch a namespace, go to another version and back, lose objects, be removed."""
    client = one.cluster.client
    for name in ("blue", "green"):
        await client.create(NAMESPACES.plain(), {"metadata": {"name": name, "labels": {"r": "y"}}})
    await one.say(image="redis-operator:1", namespaces={"matchLabels": {"r": "y"}})
    await one.until("Deployed")
    await client.patch(NAMESPACES, ("", "green"), MergePatch({"metadata": {"labels": {"r": None}}}))
    await asyncio.sleep(5.0)
    await one.until("Deployed")
    await one.say(image="redis-operator:missing")
    await one.until("Updating", says="ImagePullBackOff")
    await one.say(image="redis-operator:2")
    await one.until("Deployed")
    issued = {"issuerRef": {"kind": "ClusterIssuer", "name": "internal"}}
    await one.say(image="redis-operator:2", certificates=issued)
    await one.until("Deployed")
    await one.cluster.create_database("cache")
    await client.delete(REDIS_OPERATORS, KEY)
    for _ in range(120):
        await asyncio.sleep(1.0)
        if not (await client.list(REDIS_OPERATORS)).items:
            return
    raise AssertionError("the RedisOperator stays")


@pytest.mark.slow
async def test_every_right_of_the_installer_is_used_and_no_other_is_needed() -> None:
    seen: set[Right] = set()
    for streams in (True, False):
        async with small_cluster() as cluster:
            one = Recorded(cluster, seen, streams=streams)
            await one.prepare()
            await serve_monitoring(cluster)
            await cluster.serve_cert_manager()
            task = one.begin()
            try:
                await _life(one)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
    handed = rights(
        *(*DATABASE_RIGHTS, *CLUSTER_RIGHTS, *CERTIFICATE_RIGHTS, *BUNDLE_RIGHTS, *USER_RIGHTS),
        *ELECTION_RIGHTS,
        *REVIEW_RIGHTS,
    )
    own = granted("ClusterRole") | granted("Role")
    assert seen - own == set(), "the installer needs what it is not given"
    unused = own - seen - handed - {*NOT_PLAYED}
    assert unused == set(), "the installer is given what it does not use"
    assert {*NOT_PLAYED} & seen == set(), "these are used after all: take them off the list"


def test_programs_are_started_in_its_own_namespace_alone() -> None:
    own = granted("ClusterRole") - rights(*DATABASE_RIGHTS)  # Jobs of backups are the operator's
    everywhere = {resource for _, resource, _ in own}
    assert everywhere & {"deployments", "jobs", "leases", "cronjobs", "daemonsets"} == set()
