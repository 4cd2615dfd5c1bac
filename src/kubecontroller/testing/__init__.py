"""The test kit: an event loop in virtual time, a small API server, fault injection.

pytest uses `loop` for every test, `tiny` is the API server, `faults` a transport that fails on
purpose, `seeds` derives the seed of each test from the seed of the run.

May import: `client`, `runtime`.
Called by: tests and simulations only.
Begin with: `loop`, then `tiny` and `faults`.
"""

from __future__ import annotations
