"""Translate other kinds to `Redis`: a `RedisFailover` becomes a `Redis` of mode Failover. Pure.

Begin with `translate`. Nothing here calls a cluster. A manifest becomes a `Redis`, or the list of
everything in it that is not supported, each with the path of its field and the reason.
"""
