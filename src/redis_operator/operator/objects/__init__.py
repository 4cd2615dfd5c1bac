"""Kubernetes objects of a database: what planning sees of them, and actions on them.

Begin with `children`, which keeps them as `manifests` wants them, and `look`, which turns cached
objects into observed values. Called by a pass; `admission` asks whose an object is.
"""
