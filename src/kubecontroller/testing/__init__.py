"""The test kit: an event loop in virtual time, a small API server, fault injection.

pytest uses `loop` for every test, `tiny` is the API server, `faults` a transport that fails on
purpose, `seeds` derives the seed of each test from the seed of the run.

May import: `client`, `runtime`.
Called by: tests and simulations only.
Begin with: `loop`, then `tiny` and `faults`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubecontroller.testing.election import ElectionTask
    from kubecontroller.testing.faults import Fault, FaultyTransport, Seeded, StreamFault
    from kubecontroller.testing.loop import VirtualLoop, run
    from kubecontroller.testing.seeds import derive, run_seed
    from kubecontroller.testing.tiny import TinyServer

__all__ = [
    "ElectionTask",
    "Fault",
    "FaultyTransport",
    "Seeded",
    "StreamFault",
    "TinyServer",
    "VirtualLoop",
    "derive",
    "run",
    "run_seed",
]

if not TYPE_CHECKING:  # else any name would pass the type checker
    from kubecontroller._lazy import loader

    __getattr__ = loader(
        __name__,
        {
            "election": "ElectionTask",
            "faults": "Fault FaultyTransport Seeded StreamFault",
            "loop": "VirtualLoop run",
            "seeds": "derive run_seed",
            "tiny": "TinyServer",
        },
    )
