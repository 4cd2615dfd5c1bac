"""The keeper: the small process that is the parent of every pod process.

It outlives the node agent, so that pods continue when the agent is killed and their exit codes are
not lost. It is started by file and decides nothing: it starts, signals and reaps processes on
request, writes logs, and keeps exit records on disk.

May import: nothing but the standard library.
Called by: `process.client`, which starts it; `supervisor` finds processes by `family`.
Begin with: `main`.
"""
