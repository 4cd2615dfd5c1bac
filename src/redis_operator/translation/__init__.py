"""From other kinds to `Redis`: what a `RedisFailover` asks for, said in our own words. Pure.

Nothing here touches a cluster. A manifest becomes a `Redis`, or the list of everything in it that
cannot be followed, each with the path of its field and the reason.
"""
