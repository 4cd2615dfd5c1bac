"""What kinds there are: their table, schemas and defaults, and the syntax of names; pure.

Imports nothing of the other rooms. To serve another built-in kind, or another verb of one, begin
with `table`.
"""
