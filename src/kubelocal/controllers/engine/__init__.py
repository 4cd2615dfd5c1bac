"""What all controllers stand on: the view of the caches, changes as values, carrying them out.

Imports no controller; begin with `view`.
"""
