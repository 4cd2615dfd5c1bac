"""The shell around the brain: looks at one database, asks planning, does what it says, reports.

`observe` reads and decides nothing; `planning.plan` decides and touches nothing; `execute` touches
and decides nothing. `reconcile` joins the three for one key; `wiring` runs it on the runtime.
"""
