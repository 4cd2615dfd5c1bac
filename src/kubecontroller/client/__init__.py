"""A Kubernetes client: requests, errors, kinds, credentials, discovery and the HTTP transport.

`verbs` builds the requests of a client, `http` sends them, `config` finds the API server, `objects`
has the built-in kinds, `errors` the tree of errors.

May import: `custom`.
Called by: `runtime`, `testing`, and programs that need only a client, such as `kubelocal.node`.
Begin with: `api.Client`.
"""
