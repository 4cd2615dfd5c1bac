"""When webhooks begin and end, next to everything else in the process."""

from __future__ import annotations

import asyncio

import pytest

from kubecontroller.client.api import Client
from kubecontroller.runtime.certkeeper import CertificateKeeper
from kubecontroller.runtime.election import NotLeader
from kubecontroller.runtime.lease import LEASES, LeaseSettings
from kubecontroller.runtime.manager import Manager


@pytest.mark.parametrize(("grace", "served"), [(30.0, 5.0), (4.0, 1.0)])
async def test_webhooks_are_served_until_nobody_sends_any_more(server, running, grace, served):
    """Readiness reaches those who send only after a moment."""
    loop, closed = asyncio.get_running_loop(), []

    class Webhooks:
        async def start(self) -> None: ...

        async def stop(self) -> None:
            closed.append(loop.time())

    manager = Manager(Client(server.transport()), stop_grace=grace)
    manager.add_webhooks(Webhooks())
    async with running(manager.run()) as (task,):
        await asyncio.sleep(1)
        asked = loop.time()
        manager.request_stop()
        await task
    assert closed[0] - asked == pytest.approx(served, abs=0.1)
    assert loop.time() - asked < grace


async def test_webhooks_write_before_anybody_leads(server, client, running):
    """Their certificate is needed first: without it the API server's lists may not even work."""
    held = {"holderIdentity": "another", "leaseDurationSeconds": 3600}
    await client.create(
        LEASES, {"metadata": {"namespace": "system", "name": "operator"}, "spec": held}
    )
    second = Manager(
        Client(server.transport()),
        lease=LeaseSettings("system", "operator", "b"),
        connect=server.transport,
    )
    written = []

    class Webhooks:
        async def start(self) -> None:
            keeper = CertificateKeeper(
                second.unfenced_client,
                secret=("system", "tls"),
                names=("webhook.svc",),
                random=lambda: 0.0,
            )
            written.append(await keeper.refresh())

        async def stop(self) -> None: ...

    second.add_webhooks(Webhooks())
    async with running(second.run()):
        while not written:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        with pytest.raises(NotLeader):
            await second.client.create(LEASES, {"metadata": {"namespace": "system", "name": "x"}})
        await asyncio.sleep(1)
        with pytest.raises(RuntimeError, match="before the manager runs"):
            second.add_webhooks(Webhooks())
