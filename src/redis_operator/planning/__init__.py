"""What to do next with one database, and why.

Packages: `cluster`, `failover` and `standalone` (rules of a mode), `common` (rules of all modes),
`backups` (decisions about backups, schedules and restores), `reporting` (status and events).

Pure: a function of the wanted and the observed state, total over any state however broken. It does
no I/O, reads no clock and keeps nothing between calls. The shell around it observes (`observe`),
asks (`plan`), acts (`execute`) and observes again; a plan is advice about one moment and is never
stored.

Guarantees
    - At most one kind of change in a plan: the first rule that wants to act acts alone.
    - Every prefix of a plan keeps the invariants (docs/invariants.md), so that the shell may die
      between any two steps.
    - Nothing destructive is decided from what was not observed: an unreachable server blocks what
      depends on it, and is named.

May import: `api`, the pure parts of `redis`, `backup.task` and `kubecontroller.custom`.
Called by: `operator`; `translation` uses the bounds of conditions.
Begin with: `plan`, then `modes`.
"""
