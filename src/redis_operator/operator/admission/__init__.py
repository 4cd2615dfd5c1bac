"""Admission webhooks: every replica serves them.

Begin with `webhooks`, which serves reviews; `verdicts` decides and is pure. Called by
`operator.wiring`; it may import `api`, `planning`, `translation` and the caches of the operator.
"""
