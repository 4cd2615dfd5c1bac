"""What is wrong with an object of a built-in kind: functions from an object to problems; pure.

Called by `objects.builtin`; begin with `problems`, which knows the function of each kind.
"""
