"""Rules that objects obey, of whatever kind: metadata, defaults, what may change, what is wrong.

`questions` asks a built-in kind or a custom one the same things; `validation` has the rules of the
built-in ones. Called by `verbs`, `apply` and `lifecycle`; begin with `questions`.
"""
