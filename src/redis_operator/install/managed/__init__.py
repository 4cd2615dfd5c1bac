"""The installer in the cluster: reconciles the `RedisOperator`.

Begin with `reconcile`, the controller. `choices`, `job`, `objects` and `status` are pure. `main`
has the two programs: `redis-operator installer`, and `redis-operator strategy`, which a Job of each
version's own image runs to list the objects of that version.
"""
