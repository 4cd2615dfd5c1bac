"""The installer in the cluster: reconciles the `RedisOperator`.

`choices`, `job`, `objects` and `status` are pure. `main` has the two programs: `redis-operator
installer`, and `redis-operator strategy`, which a Job of each version's own image runs to list the
objects of that version. `lifecycle` adds the installer to a cluster and removes it.

May import: `install`, `monitoring`, `api` and `kubecontroller`.
Called by: `cli.main`, which runs its programs, and `cli.install`.
Begin with: `reconcile`.
"""
