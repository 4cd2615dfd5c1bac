"""The installer in the cluster: carries out what a `RedisOperator` describes.

`choices`, `job`, `objects` and `status` are pure. `reconcile` is the controller, and `main` has the
two programs: `redis-operator installer`, and `redis-operator strategy`, which a Job of each
version's own image runs to say what that version consists of.
"""
