"""§6.5, the part that is about Python: its own thread, fenced writes, and a watchdog."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time

import pytest

from kubecontroller.client.api import Client
from kubecontroller.client.meta import Manifest
from kubecontroller.client.patches import MergePatch
from kubecontroller.client.scheme import Kind
from kubecontroller.runtime.election import (
    ElectionThread,
    FencedTransport,
    NotLeader,
    Watchdog,
)
from kubecontroller.runtime.lease import LEASES, Fence, LeaseSettings

pytestmark = pytest.mark.asyncio(loop_factories=["real"])

CONFIG_MAPS: Kind[Manifest] = Kind("", "v1", "ConfigMap", "configmaps", True, dict)


def fast(identity: str, **more) -> LeaseSettings:
    return LeaseSettings(
        namespace="system",
        name="operator",
        identity=identity,
        duration=60.0,
        renew_deadline=50.0,
        retry_period=0.1,
        **more,
    )


async def happens(event: asyncio.Event) -> None:
    """Wait for an event, for less than a lease lasts."""
    async with asyncio.timeout(30):
        await event.wait()


async def test_the_election_goes_on_while_the_main_loop_is_busy(server):
    election = ElectionThread(fast("a"), server.transport)
    election.start()
    await happens(election.leading)
    renewed = len(server.writes()) + 5
    deadline = time.monotonic() + 30
    while len(server.writes()) < renewed:  # the main loop does not turn
        assert time.monotonic() < deadline, "the lease is not renewed"
        time.sleep(0.01)  # noqa: ASYNC251
    assert election.is_leader()
    assert not election.lost.is_set()
    await election.stop()
    assert not election.is_leader()


async def test_it_runs_in_its_own_thread_with_its_own_connection(server):
    threads = []

    def connect():
        threads.append(threading.current_thread().name)
        return server.transport()

    election = ElectionThread(fast("a"), connect)
    election.start()
    await happens(election.leading)
    await election.stop()
    assert threads == ["election"]


async def test_stopping_gives_the_lease_back_and_the_next_takes_it_at_once(server):
    first, second = (ElectionThread(fast(name), server.transport) for name in "ab")
    first.start()
    await happens(first.leading)
    second.start()
    await first.stop()
    await happens(second.leading)  # else the lease would have to run out first
    await second.stop()
    lease = await Client(server.transport()).get(LEASES, ("system", "operator"))
    assert lease["spec"]["holderIdentity"] == ""


async def test_a_lease_is_kept_on_exit_when_the_settings_say_so(server):
    election = ElectionThread(fast("a", release_on_exit=False), server.transport)
    election.start()
    await happens(election.leading)
    await election.stop()
    lease = await Client(server.transport()).get(LEASES, ("system", "operator"))
    assert lease["spec"]["holderIdentity"] == "a"


async def test_losing_the_lease_is_told_to_the_main_loop(server):
    election = ElectionThread(fast("a"), server.transport)
    election.start()
    await happens(election.leading)
    client = Client(server.transport())
    change = MergePatch({"spec": {"holderIdentity": "x", "leaseDurationSeconds": 60}})
    await client.patch(LEASES, ("system", "operator"), change)
    await happens(election.lost)
    assert not election.is_leader()
    assert election.holder == "x"
    await election.stop()


async def test_a_candidate_that_never_led_can_be_stopped(server):
    leader, standby = (ElectionThread(fast(name), server.transport) for name in "ab")
    leader.start()
    await happens(leader.leading)
    standby.start()
    await standby.stop()
    assert not standby.leading.is_set()
    await leader.stop()
    immediately = ElectionThread(fast("c"), server.transport)
    immediately.start()
    await immediately.stop()


async def test_writes_are_fenced_and_reads_pass(server):
    fence = Fence()
    client = Client(FencedTransport(server.transport(), fence))
    manifest = {"metadata": {"namespace": "d", "name": "a"}}
    with pytest.raises(
        NotLeader, match=r"POST .*/configmaps was not sent.*does not hold the lease"
    ):
        await client.create(CONFIG_MAPS, manifest)
    assert server.writes() == []
    assert (await client.list(CONFIG_MAPS)).items == ()
    fence.extend(fence.now() + 60)
    await client.create(CONFIG_MAPS, manifest)
    fence.drop()
    for write in (
        client.delete(CONFIG_MAPS, ("d", "a")),
        client.apply(CONFIG_MAPS, manifest),
        client.replace(CONFIG_MAPS, manifest),
    ):
        with pytest.raises(NotLeader):
            await write
    assert len(server.writes()) == 1
    await client.close()


async def test_a_watchdog_notices_a_loop_that_no_longer_turns():
    stuck: list[float] = []
    noticed = threading.Event()

    def on_stuck(stalled: float) -> None:
        stuck.append(stalled)
        noticed.set()

    limit = 1.0
    dog = Watchdog(limit, on_stuck)
    dog.start()
    for _ in range(30):
        await asyncio.sleep(limit / 20)
    assert stuck == [], "a loop that turns is left alone"
    assert noticed.wait(60), "the loop stands still while we wait here"
    assert stuck[0] > limit
    dog.stop()


async def test_by_default_the_watchdog_ends_the_process_and_says_what_it_did():
    program = (
        "import asyncio, time\n"
        "from kubecontroller.runtime.election import Watchdog\n"
        "async def main():\n"
        "    Watchdog(0.3).start()\n"
        "    await asyncio.sleep(0.1)\n"
        "    time.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 70
    assert "has not turned for" in done.stderr
    assert "time.sleep" in done.stderr or "in main" in done.stderr
