"""Parts of a custom kind: conditions, schemas and definitions made from Python types.

Pure values: it imports nothing else of the library and does no I/O, so that the pure part of an
operator may use it. `client.definitions` installs what `definition` returns. Begin with `schema`.
"""
