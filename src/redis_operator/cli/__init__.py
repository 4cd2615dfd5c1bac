"""The command line: `redis-operator` for people and for containers.

`main` starts the programs of containers (operator, installer, worker) without the libraries that
only people need; `app` has the commands: local mode, `install`, `convert`, `doctor`, `demo`.
`images` and `local_cluster` are what the product passes to its local cluster.

May import: everything: `operator`, `install`, `backup`, `translation`, `api`, `redis`, `kubelocal`
    and `kubecontroller`.
Called by: the program `redis-operator`; no package imports it.
Begin with: `main`, then `app`.
"""
