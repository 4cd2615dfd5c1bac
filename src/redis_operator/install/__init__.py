"""The operator's own installation: what it consists of (pure), and how it is applied and removed.

`options`, `rights`, `workload`, `admission`, `objects` and `inventory` are pure: they say what
there is. `installer` and `remover` are the shell that writes it to a cluster.
"""
