"""Bodies of requests and responses: JSON, YAML and protobuf, and decoding errors.

Called by `verbs` and `describe`; begin with `bodies`.
"""
