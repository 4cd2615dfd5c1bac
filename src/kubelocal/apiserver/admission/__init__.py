"""Admission: built-in plugins, quotas and webhooks, before a write is kept.

`webhook_rules` decides whom to ask and reads the verdict, `webhook_client` asks. Called by `verbs`;
begin with `chain`.
"""
