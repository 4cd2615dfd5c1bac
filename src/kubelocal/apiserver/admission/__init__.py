"""Admission: built-in plugins, quotas and webhooks, before a write is stored.

`webhook_rules` decides which webhooks to call and reads their verdicts, `webhook_client` calls
them.

May import: `access`, `objects`, `storage`, `kinds`, `patch`.
Called by: `verbs`, and `server`, which puts the chain together.
Begin with: `chain`.
"""
