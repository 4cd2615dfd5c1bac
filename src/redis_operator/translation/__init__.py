"""Translate other kinds to `Redis`: a `RedisFailover` becomes a `Redis` of mode Failover. Pure.

Nothing here calls a cluster. A manifest becomes a `Redis`, or the list of everything in it that is
not supported, each with the path of its field and the reason. `older` does the same for manifests
of other operators, `status` reports back.

May import: `api`, `redis`, `manifests`, `planning.reporting` and `kubecontroller.custom`.
Called by: `operator.redis_failovers`, `operator.admission` and `cli.convert`.
Begin with: `translate`.
"""
