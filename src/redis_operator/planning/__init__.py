"""What to do next with one database, and why. Begin with `plan`.

Rooms: `cluster`, `failover` and `standalone` (rules of a mode), `common` (rules of all modes),
`backups` (decisions about backups, schedules and restores), `reporting` (status and events).

Pure. A function of what is wanted and what was seen, total over any state however broken. It does
no I/O, reads no clock, keeps nothing between calls. The shell around it looks (`observe`), asks
(`plan`), does (`execute`) and looks again; a plan is advice about one moment and is never stored.

Guarantees
    - At most one kind of change in a plan: the first rule that wants to act acts alone.
    - Every prefix of a plan keeps the invariants (docs/invariants.md), so the shell may die
      between any two steps.
    - Nothing destructive is decided from what was not observed: an unreachable server blocks what
      depends on it, and is named.
"""
