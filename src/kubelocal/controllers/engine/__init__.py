"""The base of all controllers: the view of the caches, changes as values, their execution.

Imports no controller; begin with `view`.
"""
