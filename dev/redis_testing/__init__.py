"""Test tools of the operator, not shipped in its wheel: see the packages within.

`cluster` is a simulated Redis cluster, `sentinels` are simulated sentinels, `simulation` runs the
whole operator on them in virtual time, `servers` starts real servers on loopback addresses.

May import: everything that is shipped: `redis_operator`, `kubelocal`, `kubecontroller`.
Called by: tests, `tools/campaign.py` and the measurements in `bench`; nothing that is shipped.
Begin with: `servers` for real servers, `simulation.scenarios` for simulated ones.
"""
