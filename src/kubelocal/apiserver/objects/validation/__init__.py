"""Validation of objects of built-in kinds: functions from an object to problems; pure.

Called by `objects.questions`; begin with `kinds.problems`, which has the function of each kind.
"""
