"""Speaking to Redis and Valkey: values that servers answer, and the one place with sockets.

Pure: `resp`, `replies`, `parsing`, `slots`, `versions`, `config`, `errors`. Mechanism: `connection`
(the only socket code), `commands` (typed verbs, allow-list), `mover` (slots with their keys).
"""
