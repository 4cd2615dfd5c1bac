"""The rights that the operator is installed with are those that it uses, none more and none less.

That none is missing is also seen by every other test of the simulated operator: it works under the
account of an installation.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest

from install.calls import Recording, Right
from kubecontroller.client.api import Client
from kubecontroller.client.errors import Forbidden
from kubecontroller.client.objects import ROLES, SECRETS
from kubecontroller.client.patches import MergePatch
from kubecontroller.runtime.events import Recorder, Regarding
from kubecontroller.runtime.lease import Elector, Fence, LeaseSettings
from kubecontroller.runtime.manager import Manager
from kubelocal.apiserver.inprocess import InProcessTransport
from redis_operator.api.webhooks import SECRET
from redis_operator.install.admission import webhooks
from redis_operator.install.options import Options
from redis_operator.install.rights import (
    BUNDLE_RIGHTS,
    CERTIFICATE_RIGHTS,
    CLUSTER_RIGHTS,
    DATABASE_RIGHTS,
    ELECTION_RIGHTS,
    ISSUED_RIGHTS,
    Rule,
    account,
)
from redis_operator.install.waiting import WEBHOOK_CONFIGURATIONS
from redis_operator.operator.admission.webhooks import add_admission
from redis_operator.operator.settings import Settings, WebhookCertificate
from redis_operator.operator.world import REDIS_FAILOVERS, World
from redis_testing.simulation.catalog import SCENARIOS
from redis_testing.simulation.scenarios import formed, play
from redis_testing.simulation.system import (
    ACCOUNT,
    DATABASE,
    NAMESPACE,
    Simulation,
    is_ready,
    simulate,
)

PLAYED = (
    "deleted and recreated on its volumes",
    "children deleted",
    "scale in",
    "failover: restart",
    "a backup is taken",
    "a backup is taken by a schedule",
    "an archive is turned off",
    "a backup takes the place of the data",
)
_CHILDREN = "an object of a database that is no longer wanted, or cannot be changed, is deleted"
_ADMISSION = "admission asks for it, no call does"
NOT_PLAYED: dict[Right, str] = {
    ("", "events", "list"): "why a StatefulSet cannot create pods: operator/objects/absent.py",
    ("", "persistentvolumeclaims", "patch"): "a volume grows: e2e/cluster/test_storage.py",
    ("", "pods/resize", "patch"): "limits change in place: e2e/cluster/test_resources.py",
    ("", "secrets", "delete"): _CHILDREN,
    ("", "serviceaccounts", "delete"): _CHILDREN,
    ("", "services", "delete"): _CHILDREN,
    ("networking.k8s.io", "networkpolicies", "delete"): _CHILDREN,
    ("rbac.authorization.k8s.io", "roles", "delete"): _CHILDREN,
    ("rbac.authorization.k8s.io", "rolebindings", "delete"): _CHILDREN,
    ("redisoperator.dev", "redis/finalizers", "update"): _ADMISSION,
    ("redisoperator.dev", "redisfailovers/finalizers", "update"): _ADMISSION,
    ("redisoperator.dev", "redisbackups/finalizers", "update"): _ADMISSION,
    ("redisoperator.dev", "redisbackupschedules/finalizers", "update"): _ADMISSION,
    ("redisoperator.dev", "redisrestores/finalizers", "update"): _ADMISSION,
    ("batch", "jobs", "get"): "whose a Job is that exists already: operator/backups/backup.py",
}


def rights(*rules: Rule) -> set[Right]:
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def played(name: str) -> set[Right]:
    """Return the rights that the operator used in a scenario, of older and newer servers."""
    scenario = next(s for s in SCENARIOS if s.name == name)
    seen: set[Right] = set()

    async def run(simulation: Simulation) -> None:
        simulation.wrap = lambda below: Recording(below, seen)
        await play(simulation, scenario)

    simulate(run, snapshot=formed(scenario.base) if scenario.base is not None else None)
    return seen


async def owned(simulation: Simulation) -> set[Right]:
    """Return the rights that a RedisFailover takes, which has a database made."""
    seen: set[Right] = set()
    simulation.wrap = lambda below: Recording(below, seen, streams=False)
    simulation.start_operator()
    metadata = {"namespace": NAMESPACE, "name": DATABASE}
    spec = {"redis": {"image": "valkey/valkey:8.1.1"}}
    await simulation.client.create(REDIS_FAILOVERS, {"metadata": metadata, "spec": spec})

    async def ready() -> bool:
        return is_ready(await simulation.client.get(REDIS_FAILOVERS, (NAMESPACE, DATABASE)))

    await simulation.until_all(ready, within=180.0, what="the RedisFailover is ready")
    return seen


async def told_twice(simulation: Simulation) -> set[Right]:
    """Return the rights that events use: the same one again is counted, not created."""
    seen: set[Right] = set()
    client = Client(Recording(InProcessTransport(simulation.server), seen))
    recorder = Recorder(client, component="test")
    sending = asyncio.create_task(recorder.run())
    about = Regarding(kind="Redis", namespace=NAMESPACE, name=DATABASE, api_version="v1", uid="u")
    for _ in range(2):
        recorder.normal(about, "Reconciled", "the database matches its spec")
        await asyncio.sleep(1.0)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    return seen


async def elected() -> set[Right]:
    """Return the rights that an election uses: the lease is made, renewed, and waited for."""
    seen: set[Right] = set()
    simulation = Simulation(seed=1)
    client = Client(Recording(InProcessTransport(simulation.server), seen))
    settings = LeaseSettings("default", "lease", "me")
    for _ in range(2):
        elector = Elector(client, settings, Fence(), random=random.random)
        assert await elector._attempt()
    other = LeaseSettings("default", "lease", "other")
    with suppress(TimeoutError):
        async with asyncio.timeout(3):
            await Elector(client, other, Fence(), random=random.random).acquire()
    return seen


async def certified() -> set[Right]:
    """Return the rights that admission takes: a certificate made, renewed and told of."""
    seen: set[Right] = set()
    simulation = Simulation(seed=1)
    whole = InProcessTransport(simulation.server)
    client = Client(whole, field_manager="person")
    secret = ("default", SECRET)
    for streams in (True, False):
        transport = Recording(whole, seen, streams=streams)
        manager = Manager(Client(transport, field_manager="redis-operator"))
        settings = Settings(namespace="default", webhook_host="127.0.0.1")
        keeper, _ = add_admission(manager, settings, World(manager, ()))
        for made in webhooks(Options(namespace="default")):
            await client.apply(WEBHOOK_CONFIGURATIONS, made)
        tasks = [asyncio.create_task(work) for work in (keeper.run(), manager.recorder.run())]
        await asyncio.sleep(10)
        await client.patch(SECRETS, secret, MergePatch({"data": {"ca.key": None}}))
        await asyncio.sleep(10)
        [found] = (await client.list(WEBHOOK_CONFIGURATIONS)).items
        assert all(hook["clientConfig"]["caBundle"] for hook in found["webhooks"])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return {right for right in seen if right[1] != "events"}


@pytest.mark.slow
def test_every_right_is_used_and_no_other_is_needed() -> None:
    used: set[Right] = set()
    for name in PLAYED:
        used |= played(name)
    used |= simulate(owned) | simulate(told_twice) | simulate(lambda _: elected())
    asked = simulate(lambda _: certified())
    admission = rights(*BUNDLE_RIGHTS, *CERTIFICATE_RIGHTS)
    assert asked == {right for right in admission if right[1] != "events"}
    used |= asked
    table = rights(*DATABASE_RIGHTS, *CLUSTER_RIGHTS, *ELECTION_RIGHTS) | admission
    assert used - table == set(), "the operator needs what it is not given"
    assert table - used - {*NOT_PLAYED} == set(), "the operator is given what it does not use"
    assert {*NOT_PLAYED} & used == set(), "these are used after all: take them off the list"
    assert {*NOT_PLAYED} <= table


async def issued() -> set[Right]:
    """Return the rights that admission takes where an issuer makes the certificate."""
    seen: set[Right] = set()
    whole = InProcessTransport(Simulation(seed=1).server)
    for streams in (True, False):
        manager = Manager(Client(Recording(whole, seen, streams=streams)))
        settings = Settings(namespace="default", webhook_certificate=WebhookCertificate.ISSUED)
        certificate, _ = add_admission(manager, settings, World(manager, ()))
        task = asyncio.create_task(certificate.run())
        await asyncio.sleep(10)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return seen


def test_a_certificate_of_an_issuer_is_only_read() -> None:
    assert simulate(lambda _: issued()) == rights(*ISSUED_RIGHTS)


def test_the_simulated_operator_has_the_rights_of_an_installation_and_no_other() -> None:
    async def look(simulation: Simulation) -> None:
        client = Client(InProcessTransport(simulation.server, user=ACCOUNT))
        await client.list(SECRETS)
        role = {"metadata": {"name": "more", "namespace": "default"}}
        rule = {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]}
        with pytest.raises(Forbidden):
            await client.create(ROLES, {**role, "rules": [rule]})

    simulate(look)
    [bound] = [o["subjects"] for o in account() if o["kind"] == "ClusterRoleBinding"]
    assert ACCOUNT.name.endswith(":{namespace}:{name}".format(**bound[0]))
