"""Server-side apply: field managers, merges and conflicts; pure.

`fieldset` is a set of paths, `typed` compares and merges by schema, `merge` applies, `managers`
reads and writes managedFields, `ownership` tracks ordinary writes.

May import: `format`, `objects`, `storage`, `kinds`.
Called by: `verbs`.
Begin with: `merge`.
"""
