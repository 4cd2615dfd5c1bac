"""What a container is given from the API: variables and files; pure.

Called by `pod`, `volumes` and `process`; begin with `variables`.
"""
