"""The writing application in a process of its own, so that our own work does not hold it up.

`Writer` runs this module as a program: its configuration and then orders come in as lines of JSON,
its report goes out as one. Passwords travel by the pipe and never by arguments.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from types import TracebackType
from typing import Any

import msgspec

from redis_operator.cli.application import Application, ApplicationReport, Seeds

__all__ = ["Writer"]

# A report names every lost write, and Sentinel alone loses thousands.
_LONGEST_REPORT = 64 * 2**20


class Writer:
    """`async with Writer(seeds, ...) as writer`: writes until `finish`, which reads all back."""

    def __init__(self, seeds: Seeds, *, writes_per_second: float) -> None:
        self._seeds = seeds
        self._rate = writes_per_second
        self._process: Process | None = None

    async def __aenter__(self) -> Writer:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.writer"),
            stdin=PIPE,
            stdout=PIPE,
            limit=_LONGEST_REPORT,
        )
        await self._order({**_told(self._seeds), "rate": self._rate})
        await self._answer()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def reset(self) -> None:
        """Forget the longest wait so far."""
        await self._order({"do": "reset"})
        await self._answer()

    async def longest_wait(self) -> float:
        """Return the longest wait since the last reset, in seconds: of unfinished writes too."""
        await self._order({"do": "tell"})
        return float((await self._answer())["longest"])

    async def finish(self, seeds: Seeds | None = None) -> ApplicationReport:
        """Stop writing, read everything back (from `seeds` when servers have moved) and report."""
        await self._order({"do": "finish", **_told(seeds or self._seeds)})
        report = msgspec.convert(await self._answer(), ApplicationReport)
        if report.unfinished:
            raise RuntimeError(f"{report.unfinished} writes were never acknowledged: {report}")
        return report

    async def _order(self, order: dict[str, object]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        await self._process.stdin.drain()

    async def _answer(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), 120)
        if not line:
            raise RuntimeError("the writing application ended by itself")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _told(seeds: Seeds) -> dict[str, object]:
    return {
        "addresses": seeds.addresses,
        "username": seeds.username,
        "password": seeds.password,
    }


def _heard(order: dict[str, Any]) -> Seeds:
    addresses = tuple((host, port) for host, port in order["addresses"])
    return Seeds(addresses, str(order["username"]), str(order["password"]))


async def _serve() -> None:
    lines = asyncio.StreamReader(limit=2**20)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    order = json.loads(await lines.readline())
    application = Application(_heard(order), writes_per_second=order["rate"])
    application.start()
    while application.sent < 50:  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0.01)
    print("{}", flush=True)
    while line := await lines.readline():
        order = json.loads(line)
        if order["do"] == "reset":
            application.forget_waits()
            print("{}", flush=True)
            continue
        if order["do"] == "tell":
            print(json.dumps({"longest": application.longest_wait}), flush=True)
            continue
        await application.stop()
        application.seeds = _heard(order)
        report = await application.verify()
        print(json.dumps({name: getattr(report, name) for name in report.__struct_fields__}))
        sys.stdout.flush()
        return


if __name__ == "__main__":
    asyncio.run(_serve())
