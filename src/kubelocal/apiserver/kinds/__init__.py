"""The built-in kinds: their table, schemas and defaults, and the syntax of names; pure.

To serve another built-in kind, or another verb of one, add it to `table`; `quantities` and
`selectors` parse what every kind has.

May import: none of the other packages of the API server.
Called by: every other package of the API server; `controllers` and `node` parse quantities by it.
Begin with: `table`.
"""
