"""Bodies of requests and answers: JSON, YAML and protobuf, and what Go says of broken ones.

Called by `verbs` and `describe`; begin with `bodies`.
"""
