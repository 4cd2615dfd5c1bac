"""The API server: its responses depend only on its calls, its clock and its store.

`server` routes a call, authorizes it and passes it to `verbs`; requests come in by `http` or
`inprocess`; `daemon` runs it with files and certificates. Packages from the outside in: `http`,
`verbs`, `admission`, `apply`, `lifecycle`, `describe`, `access`, `format`, `objects`, `custom`,
`storage`, `kinds`, `patch`; none imports one before it.

May import: `kubecontroller`, and neither controllers nor nodes: `pod_api` is the protocol that a
    node implements for it.
Called by: `kubelocal.control_plane`; `kubelocal.controllers` and `kubelocal.node` use its values.
Begin with: `server.ApiServer` and its method handle.
"""
