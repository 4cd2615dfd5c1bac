"""Redis servers and sentinels: links to them, questions to them, and actions on them.

Begin with `probe` (one question to one server) and `actions` (each with its precondition and its
verification). The differences between modes are in the dialects, listed in `dialects`. It may
import the operator's own values, `planning` and `redis`; called by a pass (`observe`, `act`).
"""
