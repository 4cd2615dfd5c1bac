"""Redis servers and sentinels: links to them, what they are asked, and actions on them.

Begin with `probe` (one question to one server) and `actions` (what is done, with its precondition
and its proof). What differs between modes is in the dialects, listed in `dialects`. Imports the
operator's own values and `redis`; called by a pass (`observe`, `act`).
"""
