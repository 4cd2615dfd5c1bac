"""Rules for objects of any kind: metadata, defaults, allowed changes, validation.

`questions` has the same functions for built-in and custom kinds; `validation` has the rules of the
built-in ones. Called by `verbs`, `apply` and `lifecycle`; begin with `questions`.
"""
