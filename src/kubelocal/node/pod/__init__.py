"""One pod: its containers, their restarts and probes, and its status.

`runner` has the order of containers, `container` is one of them, `health` and `probing` run its
probes, `states` and `status` are pure.

May import: `kubecontroller`, `apiserver`, `volumes`, `process`, `environment`.
Called by: `agent`, `nodes` and `requests`.
Begin with: `runner`, then `container`.
"""
