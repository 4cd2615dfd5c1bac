"""The verbs of requests: read, write, delete, patch, scale, bind, evict, review.

Each verb is a class or function of `calls.Call`; steps that need a webhook are yielded, not done.
Called only by `server`; begin with `write` (create and update) or `read` (get, list, watch).
"""
