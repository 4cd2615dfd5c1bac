"""The custom resources as values: types, defaults, validation and the CRDs made from them.

Begin with `redis` (the spec), `status`, `validation.load`, and `crd`. It imports only `redis`
values of the product; every other package may import it.
"""
