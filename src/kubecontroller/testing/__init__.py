"""The test kit: an event loop in virtual time, a small API server, fault injection.

Begin with `loop`, which pytest uses for every test, then `tiny` (the API server) and `faults` (a
transport that fails on purpose). It may import `client` and `runtime`; only tests import it.
"""

from __future__ import annotations
