"""The custom resources as values: types, defaults, validation and the CRDs made from them.

Begin with `redis` (the spec), `status`, `validation.load`, and `crd`. Imports nothing of the
product; everything else imports it.
"""
