"""What kinds of one's own are made of: conditions, schemas and definitions from Python types.

Pure values: it imports nothing of the library and does no I/O, so that the pure part of an operator
may use it. `client.definitions` installs what `definition` returns. Begin with `schema`.
"""
