"""Admission webhooks: every replica serves them. Begin with `webhooks`; `verdicts` decides."""
