"""Custom resources: schemas (structure, validation, formats) and rules in CEL; pure.

`schema` sets defaults and prunes, `validation` checks a value against its schema, `structure`
checks the schema of a definition; `cel` has the rules.

May import: `storage`, `kinds`.
Called by: `objects`, `format`, `verbs` and `core`.
Begin with: `schema`.
"""
