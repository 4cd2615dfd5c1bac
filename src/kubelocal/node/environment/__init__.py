"""Variables and files of a container that come from the API; pure.

Called by `pod`, `volumes` and `process`; begin with `variables`.
"""
