"""The client of Redis and Valkey: typed commands, their replies as values, and the socket code.

Pure: `resp`, `command`, `commands`, `replies`, `parsing`, `info`, `slots`, `versions`, `config`,
`directives`, `moving`, `errors`, and for sentinels `sentinel`, `sentinel_replies`,
`sentinel_parsing`. With I/O: `connection` (the only socket code), and `mover` with `carrying`,
`atomic` and `rescue` (slots with their keys, over connections of the caller).

May import: no other package; it does not know Kubernetes.
Called by: `operator` and `backup`, which connect; `api`, `manifests`, `planning` and `translation`
    use its values.
Begin with: `commands` and `replies`.
"""
