"""The API server: its responses depend only on its calls, its clock and its store.

`server` routes a call, authorizes it and passes it to `verbs`; requests come in by `http` or
`inprocess`; `daemon` runs it with files and certificates. Imports neither `node` nor `controllers`;
`pod_api` is the protocol that a node implements for it. Begin with `server.ApiServer.handle`.

Packages from the outside in: `http`, `verbs`, `admission`, `apply`, `patch`, `lifecycle`,
`describe`, `access`, `format`, `objects`, `custom`, `storage`, `kinds`; none imports one before it.
"""
