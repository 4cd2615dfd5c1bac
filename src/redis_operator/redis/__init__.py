"""Speaking to Redis and Valkey: values that servers answer, and the one place with sockets.

Pure: `resp`, `command`, `commands`, `replies`, `parsing`, `info`, `slots`, `versions`, `config`,
`directives`, `moving`, `errors`, and for sentinels `sentinel`, `sentinel_replies`,
`sentinel_parsing`. Mechanism: `connection` (the only socket code), and `mover` with
`carrying`, `atomic` and `rescue` (slots with their keys, over links that the caller gives).
"""
