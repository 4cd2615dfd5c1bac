"""§6.6: what starts before what, and what stops after what."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap

import aiohttp
import pytest

from kubecontroller.client.api import Client
from kubecontroller.client.errors import ConnectionFailed
from kubecontroller.client.patches import MergePatch
from kubecontroller.runtime.controller import CachesNotSynced, Controller, Watch
from kubecontroller.runtime.election import LeadershipLost, NotLeader
from kubecontroller.runtime.lease import LEASES, LeaseSettings
from kubecontroller.runtime.manager import Manager
from kubecontroller.runtime.outcomes import Done
from kubecontroller.runtime.process import freeze_cached_objects, run_process

real = pytest.mark.asyncio(loop_factories=["real"])


def fast_lease(identity: str) -> LeaseSettings:
    return LeaseSettings(
        namespace="system",
        name="operator",
        identity=identity,
        duration=3.0,
        renew_deadline=2.5,
        retry_period=0.1,
    )


def usual_lease(identity: str) -> LeaseSettings:
    return LeaseSettings(namespace="system", name="operator", identity=identity)


class Noted:
    """A server that notes when it is started and stopped."""

    def __init__(self, name: str, journal: list[str]) -> None:
        self.name, self.journal = name, journal

    async def start(self) -> None:
        self.journal.append(f"{self.name} started")

    async def stop(self) -> None:
        self.journal.append(f"{self.name} stopped")


class Operator:
    """A manager with one controller, and a journal of what happened."""

    def __init__(self, server, kind, **options) -> None:
        self.journal: list[str] = []
        self.reconciled: list[tuple[str, str]] = []
        self.manager = Manager(
            Client(server.transport()), webhooks=[Noted("webhooks", self.journal)], **options
        )
        self.informer = self.manager.informer(kind)
        self.manager.on_synced.append(lambda: self.journal.append("caches synced"))
        self.controller = Controller("web", self.reconcile, [Watch(self.informer)])
        self.manager.add(self.controller)
        self.manager.add_task("other", lambda: self.noted("task"))
        self.manager.add_task("leader", lambda: self.noted("leader task"), needs_leader=True)

    async def reconcile(self, key):
        if not self.reconciled:
            self.journal.append("reconciling")
        self.reconciled.append(key)
        return Done()

    async def noted(self, name: str) -> None:
        self.journal.append(f"{name} started")
        try:
            await asyncio.Event().wait()
        finally:
            self.journal.append(f"{name} stopped")


async def test_parts_start_and_stop_in_the_order_of_the_life_cycle(
    server, client, kind, manifest, running, caplog
):
    caplog.set_level("INFO")
    await client.create(kind, manifest("a"))
    operator = Operator(server, kind)
    async with running(operator.manager.run()) as (task,):
        await asyncio.sleep(1)
        operator.journal.append("stop asked")
        operator.manager.request_stop()
        await task
    assert operator.journal == [
        "webhooks started",
        "caches synced",
        "task started",
        "leader task started",
        "reconciling",
        "stop asked",
        "task stopped",
        "leader task stopped",
        "webhooks stopped",
    ]
    stages = [r.fields["stage"] for r in caplog.records if "stage" in getattr(r, "fields", {})]
    assert stages == ["tasks", "controllers", "election", "caches", "webhooks", "server", "events"]


async def test_readiness_turns_before_anything_is_stopped(server, kind, running):
    operator = Operator(server, kind)
    manager = operator.manager
    assert manager.limitation() == "starting"
    seen = []

    async def watch_readiness():
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(manager.limitation())

    manager.add_task("watch", watch_readiness)
    async with running(manager.run()) as (task,):
        await asyncio.sleep(1)
        assert manager.limitation() is None
        manager.request_stop()
        await task
    assert seen == ["stopping"]


async def test_a_running_reconcile_may_end_within_the_grace_and_is_cancelled_after(
    server, client, kind, manifest, running
):
    await client.create(kind, manifest("a"))
    for length, expected in ((5, "ended"), (500, "cancelled")):
        ended = []

        async def reconcile(_, length=length, ended=ended):
            try:
                await asyncio.sleep(length)
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise
            ended.append("ended")
            return Done()

        manager = Manager(Client(server.transport()))
        manager.add(Controller("web", reconcile, [Watch(manager.informer(kind))]))
        begun = asyncio.get_running_loop().time()
        async with running(manager.run()) as (task,):
            await asyncio.sleep(1)
            manager.request_stop()
            await task
        assert ended == [expected]
        assert asyncio.get_running_loop().time() - begun <= 31.5


async def test_the_second_signal_ends_the_process_at_once(server, kind, running):
    exits = []
    operator = Operator(server, kind, exit_now=exits.append)

    async def reconcile_forever(_):
        await asyncio.sleep(20)
        return Done()

    operator.controller._reconcile = reconcile_forever
    async with running(operator.manager.run()):
        operator.controller.enqueue(("d", "a"))
        await asyncio.sleep(1)
        operator.manager.signalled()
        await asyncio.sleep(1)
        assert exits == []
        operator.manager.signalled()
        assert exits == [1]


async def test_caches_that_do_not_fill_fail_the_start_naming_which_and_why(kind, running):
    class Dead:
        async def request(self, request, *, timeout):
            raise ConnectionFailed("connection refused", host="https://api:6443")

        def stream(self, request, *, idle):
            raise ConnectionFailed("connection refused", host="https://api:6443")

    manager = Manager(Client(Dead()))
    manager.informer(kind)
    with pytest.raises(CachesNotSynced, match=r"120 s of: configmaps \(https://api:6443"):
        await manager.run()


async def test_a_part_that_fails_stops_the_rest_and_its_error_comes_out(server, kind, running):
    operator = Operator(server, kind)

    async def broken() -> None:
        await asyncio.sleep(5)
        raise RuntimeError("a bug in a task")

    operator.manager.add_task("broken", broken)
    with pytest.raises(RuntimeError, match="a bug in a task"):
        await operator.manager.run()
    assert operator.journal[-1] == "webhooks stopped"


async def test_one_unreadable_object_stops_nobody_and_is_told_on_the_object(
    server, kind, manifest, running
):
    meta = {"namespace": "default", "name": "bad", "uid": "u", "resourceVersion": "1"}
    server.objects["api/v1/configmaps"] = {("default", "bad"): {"metadata": meta, "data": 5}}
    operator = Operator(server, kind)
    client = Client(server.transport())
    await client.create(kind, manifest("good"))
    async with running(operator.manager.run()):
        await asyncio.sleep(5)
        await client.create(kind, manifest("later"))
        await asyncio.sleep(5)
        operator.manager.request_stop()
    assert operator.reconciled == [("default", "good"), ("default", "later")]
    (event,) = server.objects["api/v1/events"].values()
    assert event["reason"] == "Unreadable"
    assert event["involvedObject"]["name"] == "bad"
    assert "data" in event["message"]


def test_two_controllers_of_one_name_are_refused(server, kind):
    operator = Operator(server, kind)
    with pytest.raises(ValueError, match="metrics would mix"):
        operator.manager.add(Controller("web", operator.reconcile, []))


def test_the_same_kind_and_selectors_share_one_cache(server, kind):
    manager = Manager(Client(server.transport()))
    one = manager.informer(kind, labels="app=x")
    assert manager.informer(kind, labels="app=x") is one
    assert manager.informer(kind) is not one
    with pytest.raises(ValueError, match="where it is first made"):
        manager.informer(kind, labels="app=x", resync=10)


def test_an_election_without_its_own_connection_is_refused(server):
    with pytest.raises(ValueError, match="connect="):
        Manager(Client(server.transport()), lease=fast_lease("a"))


# Leadership


def leading(operator: Operator) -> float:
    """What the metric says of who leads."""
    (family,) = operator.manager.metrics.leading.collect()
    (sample,) = family.samples
    return sample.value


async def test_who_needs_no_election_leads_as_soon_as_it_works(server, kind, running):
    operator = Operator(server, kind)
    assert leading(operator) == 0
    async with running(operator.manager.run()) as (task,):
        await asyncio.sleep(1)
        assert leading(operator) == 1
        operator.manager.request_stop()
        await task
    assert leading(operator) == 0


@pytest.mark.slow
@real
async def test_a_standby_is_warm_and_takes_over_at_once_after_a_graceful_stop(
    server, client, kind, manifest, running
):
    await client.create(kind, manifest("a"))
    first, second = (
        Operator(server, kind, lease=usual_lease(name), connect=server.transport) for name in "ab"
    )
    async with running(first.manager.run()) as (first_task,):
        async with asyncio.timeout(5):
            await first.manager.election.wait_leading()
        async with running(second.manager.run()) as (second_task,):
            await asyncio.sleep(0.5)
            assert second.informer.has_synced, "warm: its cache is filled"
            assert len(second.controller.queue) == 1, "warm: its keys are collected"
            assert second.reconciled == []
            assert second.manager.limitation() is None, "a standby is ready"
            assert [leading(operator) for operator in (first, second)] == [1.0, 0.0]
            with pytest.raises(NotLeader):
                await second.manager.client.create(kind, manifest("not-allowed"))
            first.manager.request_stop()
            async with asyncio.timeout(1):
                await second.manager.election.wait_leading()
            assert not first_task.done(), "its webhooks are still served"
            await asyncio.sleep(0.2)
            assert second.reconciled == [("default", "a")]
            await first_task
            second.manager.request_stop()
            await second_task


@real
async def test_a_lost_lease_ends_the_process_at_once_and_without_writes(
    server, client, kind, manifest, running
):
    exits: list[int] = []
    operator = Operator(
        server, kind, lease=fast_lease("a"), connect=server.transport, exit_now=exits.append
    )
    hung = asyncio.Event()

    async def reconcile(_):
        hung.set()
        try:
            await asyncio.sleep(1000)
        finally:
            assert exits == [2], "the process ends before anything is tidied up"
        return Done()

    operator.controller._reconcile = reconcile
    await client.create(kind, manifest("a"))
    task = asyncio.create_task(operator.manager.run())
    async with asyncio.timeout(5):
        await hung.wait()
    change = MergePatch({"spec": {"holderIdentity": "x", "leaseDurationSeconds": 60}})
    await client.patch(LEASES, ("system", "operator"), change)
    with pytest.raises(LeadershipLost, match="x was seen to hold it last"):
        async with asyncio.timeout(5):
            await task
    with pytest.raises(NotLeader):
        await operator.manager.client.create(kind, manifest("too-late"))
    lease = await client.get(LEASES, ("system", "operator"))
    assert lease["spec"]["holderIdentity"] == "x", "what is not ours is not released"


@real
async def test_a_controller_that_needs_no_leader_works_on_a_standby(
    server, client, kind, manifest, running
):
    leader = Operator(server, kind, lease=fast_lease("a"), connect=server.transport)
    standby = Manager(Client(server.transport()), lease=fast_lease("b"), connect=server.transport)
    worked = asyncio.Event()

    async def reconcile(_):
        worked.set()
        return Done()

    informer = standby.informer(kind)
    standby.add(Controller("everywhere", reconcile, [Watch(informer)], needs_leader=False))
    await client.create(kind, manifest("a"))
    async with running(leader.manager.run()) as (first,):
        async with asyncio.timeout(10):
            await leader.manager.election.wait_leading()
        async with running(standby.run()) as (second,):
            async with asyncio.timeout(10):
                await worked.wait()
            assert not standby.election.is_leader()
            standby.request_stop()
            await second
        leader.manager.request_stop()
        await first


@real
async def test_health_readiness_and_metrics_are_served_while_it_runs(server, kind, running):
    operator = Operator(server, kind)
    health = operator.manager.serve_health(host="127.0.0.1", port=0)
    async with running(operator.manager.run()) as (task,), aiohttp.ClientSession() as session:

        async def get(path: str) -> tuple[int, str]:
            async with session.get(f"http://127.0.0.1:{health.port}{path}") as response:
                return response.status, await response.text()

        async with asyncio.timeout(10):
            await operator.informer.wait_synced()
            await asyncio.sleep(0.2)
        assert await get("/healthz") == (200, "[+]ping ok\nok\n")
        assert await get("/readyz") == (200, "[+]manager ok\nok\n")
        status, text = await get("/metrics")
        assert status == 200
        assert 'controller_runtime_max_concurrent_reconciles{controller="web"} 1.0' in text
        assert 'informer_synced{namespace="",resource="configmaps",selector=""} 1.0' in text
        operator.manager.request_stop()
        await task


# The process


PROGRAM = """
import asyncio, sys
from kubecontroller.client.api import Client
from kubecontroller.runtime.election import LeadershipLost
from kubecontroller.runtime.manager import Manager
from kubecontroller.runtime.process import run_process
from kubecontroller.testing.tiny import TinyServer

async def main():
    mode = sys.argv[1]
    if mode == "lost":
        raise LeadershipLost("the lease was lost")
    if mode == "broken":
        raise ValueError("a bug")
    manager = Manager(Client(TinyServer().transport()))
    async def stubborn():
        print("up", flush=True)
        await asyncio.sleep(1000)
    async def slow():
        try:
            await asyncio.sleep(1000)
        finally:
            if mode == "slow":
                await asyncio.sleep(1000)
    manager.add_task("slow", slow)
    manager.add_task("up", stubborn)
    await manager.run()

sys.exit(run_process(main))
"""


def start(mode: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), mode],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


@pytest.mark.parametrize(
    ("mode", "signals", "code"),
    [("fine", 1, 0), ("slow", 2, 1), ("lost", 0, 1), ("broken", 0, 1)],
    ids=["one signal", "two signals", "lost lease", "a bug"],
)
def test_a_process_ends_with_the_status_its_end_deserves(mode, signals, code):
    with start(mode) as process:
        if signals:
            assert process.stdout.readline() == "up\n"
        for _ in range(signals):
            process.send_signal(signal.SIGTERM)
            if signals > 1:
                try:
                    process.wait(0.5)
                except subprocess.TimeoutExpired:
                    continue
        assert process.wait(15) == code
        text = process.stderr.read()
    if mode == "lost":
        assert "the lease was lost" in text
        assert "Traceback" not in text
    if mode == "broken":
        assert "a bug" in text


@real
async def test_expected_errors_are_one_line_and_not_a_traceback(capsys):
    async def main() -> None:
        raise CachesNotSynced("no first list within 120 s of: pods (connection refused)")

    exits: list[int] = []
    code = await asyncio.to_thread(run_process, main, exit_now=exits.append)
    assert code == 1
    text = capsys.readouterr().err
    assert "no first list within 120 s of: pods" in text
    assert "Traceback" not in text
    assert exits == []


def test_after_the_caches_filled_the_collector_leaves_them_alone():
    before = gc.get_threshold()
    try:
        freeze_cached_objects()
        assert gc.get_threshold() == (50_000, 20, 100)
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
