"""Test tools of the operator, not shipped in its wheel: see the packages within.

`cluster` is a simulated Redis cluster, `simulation` runs the whole operator on it in virtual time,
`servers` starts real servers on loopback addresses.
"""
