"""Rules for objects of any kind: metadata, defaults, allowed changes, validation.

`questions` has the same functions for built-in and custom kinds; `validation` has the rules of the
built-in ones; `strategy` says what clients may not set.

May import: `custom`, `storage`, `kinds`.
Called by: `core`, `server`, `verbs`, `apply`, `admission`, `access` and `lifecycle`.
Begin with: `questions`.
"""
