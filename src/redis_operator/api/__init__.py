"""The custom resources as values: types, defaults, validation and the CRDs made from them.

`redis` is the spec, `status` the status, `validation.load` checks a manifest and names each bad
field, `crd` makes the definitions, `webhooks` lists what is judged before it is stored.

May import: `kubecontroller.custom`, and the values of `redis` (versions, directives); no I/O.
Called by: `manifests`, `planning`, `translation`, `operator`, `install`, `cli`.
Begin with: `redis`, `status`, `validation.load` and `crd`.
"""
