"""The client of Redis and Valkey: typed commands, their replies as values, and the socket code.

Begin with `commands` and `replies`. Pure: `resp`, `command`, `commands`, `replies`, `parsing`,
`info`, `slots`, `versions`, `config`, `directives`, `moving`, `errors`, and for sentinels
`sentinel`, `sentinel_replies`, `sentinel_parsing`. With I/O: `connection` (the only socket code),
and `mover` with `carrying`, `atomic` and `rescue` (slots with their keys, over connections of the
caller).
"""
