"""What kubectl reads about the server: discovery, OpenAPI, and tables.

To add a column begin with `printers` (which columns a kind has) and `cells` (what is in them).
Called by `server` and `verbs.read`.
"""
