"""State: every object in its encoded form, its history, and its watches.

`store` keeps collections and writes them to `sqlite` before they become visible (`spare` keeps a
copy), `entries` encodes objects and indexes their fields, `watch` is a cursor in the history.

May import: `kubecontroller`, `kinds`.
Called by: `core`, `server`, `daemon`, and by every package of the API server but kinds and patch.
Begin with: `store`.
"""
