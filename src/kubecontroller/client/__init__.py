"""A Kubernetes client: requests, errors, kinds, credentials, discovery and the HTTP transport.

Begin with `api.Client`; `verbs` builds its requests, `http` sends them, `config` finds the API
server, `objects` has the built-in kinds. It imports nothing of this package but `custom`; called by
`runtime`, `testing` and by programs that only need a client.
"""
