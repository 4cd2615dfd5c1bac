"""Runs the API server alone, for development: `python -m kubelocal.apiserver`."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from kubelocal.apiserver.access.certificates import write_private
from kubelocal.apiserver.daemon import Daemon


async def _run(data: Path, config: Path | None, port: int) -> None:
    daemon = Daemon(data, port=port)
    url = await daemon.start()
    if config is not None:
        write_private(config, daemon.kubeconfig().encode())
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()
    await daemon.stop()


def main() -> None:
    """Read the arguments and serve until stopped."""
    parser = argparse.ArgumentParser(prog="python -m kubelocal.apiserver")
    parser.add_argument("--data", type=Path, required=True, help="directory to keep state in")
    parser.add_argument("--kubeconfig", type=Path, help="file to write the admin's kubeconfig to")
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0 chooses one")
    given = parser.parse_args()
    asyncio.run(_run(given.data, given.kubeconfig, given.port))


if __name__ == "__main__":
    main()
