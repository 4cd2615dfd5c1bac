"""The built-in kinds: their table, schemas and defaults, and the syntax of names; pure.

Imports none of the other packages. To serve another built-in kind, or another verb of one, begin
with `table`.
"""
