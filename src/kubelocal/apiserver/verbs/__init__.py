"""The verbs of requests: read, write, delete, patch, scale, bind, evict, review.

Each verb is a class or function of `calls.Call`; steps that need a webhook are yielded, not done.

May import: `kubecontroller`, and every other package of the API server but http: `admission`,
    `apply`, `lifecycle`, `describe`, `access`, `format`, `objects`, `custom`, `storage`, `kinds`,
    `patch`.
Called by: `server`.
Begin with: `write` (create and update) or `read` (get, list, watch).
"""
