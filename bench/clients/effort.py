"""What a client program has used, and how it reports it."""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from pathlib import Path

__all__ = ["Effort", "arguments", "go", "peak_mib"]


def arguments() -> tuple[str, int, int]:
    """Return the server's address, the number of pods and of events."""
    return sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def peak_mib() -> float:
    """Return the most memory this process has had resident, in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmHWM in /proc/self/status")


def go(url: str) -> None:
    """Have the server send its events."""
    with urllib.request.urlopen(urllib.request.Request(f"{url}/go", data=b"{}")) as answer:
        answer.read()


class Effort:
    """Wall and CPU time of the two phases, begun when it is made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        self._report: dict[str, float] = {"base_mib": peak_mib()}

    def listed(self) -> None:
        """Say that the cache holds everything."""
        self._note("list")
        print(json.dumps(self._report), flush=True)  # in case the second phase never ends

    def followed(self, events: int) -> None:
        """Say that the last event is in the cache, and print the report."""
        self._note("watch")
        self._report["events"] = events
        print(json.dumps(self._report), flush=True)

    def _note(self, phase: str) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        self._report[f"{phase}_seconds"] = wall - self._wall
        self._report[f"{phase}_cpu"] = cpu - self._cpu
        self._report["peak_mib"] = peak_mib()
        self._wall, self._cpu = wall, cpu
