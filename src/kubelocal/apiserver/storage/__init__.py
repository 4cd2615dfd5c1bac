"""State: every object in its encoded form, its history, and its watches.

`store` keeps collections and writes them to `sqlite` before they become visible (`spare` keeps a
copy), `entries` encodes objects and indexes their fields, `watch` is a cursor in the history. May
import `kinds`. Called by everything above; begin with `store`.
"""
