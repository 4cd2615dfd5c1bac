"""Admission webhooks: every replica serves them.

`webhooks` serves reviews; `verdicts` decides and is pure: it judges by the rules that a pass checks
again.

May import: `api`, `planning`, `manifests`, `translation`, `redis`, `objects` (who owns an object)
    and `kubecontroller`.
Called by: `operator.wiring`.
Begin with: `webhooks`.
"""
