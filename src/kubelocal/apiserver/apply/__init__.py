"""Server-side apply: who owns which field, and what a merge or a conflict is; pure.

`fieldset` is a set of paths, `typed` compares and merges by schema, `merge` applies, `managers`
reads and writes managedFields, `ownership` tracks ordinary writes. Called by
`verbs`; begin with `merge`.
"""
