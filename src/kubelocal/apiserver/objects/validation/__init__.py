"""Validation of objects of built-in kinds: functions from an object to problems; pure.

`kinds.problems` has the function of each kind; `checks` has those of single fields, with the table
`fields.json`.

May import: `custom`, `kinds`.
Called by: `objects.questions`.
Begin with: `kinds`.
"""
