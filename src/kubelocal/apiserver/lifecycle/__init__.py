"""Objects that follow from others: what is in a namespace, addresses, definitions, deletion.

Each is told of every change by `core`. Called by `server` and `verbs`; begin with `namespaces`.
"""
