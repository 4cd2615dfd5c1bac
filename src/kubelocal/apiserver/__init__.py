"""The API server: what it answers depends on nothing but its calls, its clock and its store.

`server` routes a call, authorises it and hands it to `verbs`; `http` and `inprocess` are the two
ways in; `daemon` runs it with files and certificates. Imports neither `node` nor `controllers`;
`pod_api` is what it needs of a node. Begin with `server.ApiServer.handle`.

Rooms from the outside in: `http`, `verbs`, `admission`, `apply`, `patch`, `lifecycle`, `describe`,
`access`, `format`, `objects`, `custom`, `storage`, `kinds`; none imports one before it.
"""
