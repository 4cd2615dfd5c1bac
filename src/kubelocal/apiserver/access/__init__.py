"""Authentication and authorization: certificates, tokens, RBAC.

`rbac` evaluates roles and bindings for every request, `tokens` signs and checks the tokens of
service accounts, `certificates` is the certificate authority of the server.

May import: `kubecontroller.runtime.certificates`, `objects`, `storage`, and the modules of
    `apiserver` that all its packages share.
Called by: `server`, `daemon`, `http`, `admission` and `verbs`.
Begin with: `rbac`.
"""
