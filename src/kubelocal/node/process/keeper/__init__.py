"""The keeper: the small process that is the parent of every pod process.

It outlives the node agent, so that pods go on when the agent is killed and their exit codes are
not lost. It is started by file, imports the standard library alone and holds no policy: it starts,
signals and reaps what it is told to, writes logs, and keeps exit records on disk.
"""
