"""Objects that follow from others: default content of namespaces, addresses, definitions, deletion.

`core` calls each after every change: `namespaces` empties a terminating namespace, `services` gives
cluster IPs, `definitions` serves the kinds of a CRD, `deletion` ends objects with their finalizers.

May import: `kubecontroller`, `objects`, `storage`, `kinds`.
Called by: `server`, `daemon` and `verbs`; `controllers.garbage` shares the rules of deletion.
Begin with: `namespaces`.
"""
