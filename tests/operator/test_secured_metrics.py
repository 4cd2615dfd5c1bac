"""The operator that is told to show its metrics to some accounts only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest

from kubelocal.apiserver.daemon import Daemon
from kubelocal.loopback import free_host
from redis_operator.operator.settings import read_settings
from redis_operator.operator.wiring import make_manager

PORT = 8080


async def status_of(place: Callable[[], str]) -> int:
    """Return the HTTP status, once somebody listens there."""
    async with asyncio.timeout(60), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(place(), ssl=False) as answer:
                    return answer.status
            except aiohttp.ClientConnectorError:
                await asyncio.sleep(0.02)


async def test_metrics_of_the_operator_are_served_to_bearers_of_tokens_alone(
    tmp_path: Path,
) -> None:
    server = Daemon(tmp_path / "data")
    await server.start()
    file = tmp_path / "kubeconfig"
    file.write_text(server.kubeconfig())
    host = free_host(PORT)
    given = ["--kubeconfig", str(file), "--no-election", "--health-host", host]
    manager = make_manager(read_settings([*given, "--secured-metrics-port", "0"], {}))
    running = asyncio.create_task(manager.run())
    try:
        assert await status_of(lambda: f"http://{host}:{PORT}/healthz") == 200
        assert await status_of(lambda: f"http://{host}:{PORT}/metrics") == 404
        secured = manager.health and manager.health.secured
        assert secured is not None
        assert await status_of(lambda: f"https://{host}:{secured.port}/metrics") == 401
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await manager.client.close()
        await server.stop()


def test_a_port_for_metrics_without_one_for_health_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        read_settings(["--health-port", "0", "--secured-metrics-port", "8443"], {})
    assert "--secured-metrics-port needs a --health-port" in capsys.readouterr().err
