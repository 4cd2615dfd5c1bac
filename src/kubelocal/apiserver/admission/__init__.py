"""Admission: built-in plugins, quotas and webhooks, before a write is stored.

`webhook_rules` decides which webhooks to call and reads their verdicts, `webhook_client` calls
them. Called by `verbs`; begin with `chain`.
"""
