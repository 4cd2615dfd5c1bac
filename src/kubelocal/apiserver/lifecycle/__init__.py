"""Objects that follow from others: default content of namespaces, addresses, definitions, deletion.

Each is called by `core` after every change. Called by `server` and `verbs`; begin with
`namespaces`.
"""
