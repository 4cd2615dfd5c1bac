"""The whole system in one event loop and in virtual time, so that it can be broken anywhere.

Real: the operator, the API server core, the controllers of local mode. Simulated: nodes, pods, the
network and the servers in it (`redis_testing.cluster`). The same seed gives the same history.

May import: `redis_operator`, `kubecontroller`, `kubelocal`, `cluster`, `sentinels`.
Called by: tests in `tests/sim`, and `tools/campaign.py`.
Begin with: `system` and `scenarios`; `catalog` lists everything that happens to databases.
"""
