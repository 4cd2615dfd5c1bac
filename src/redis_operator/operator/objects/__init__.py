"""Kubernetes objects of a database: what planning sees of them, and actions on them.

Begin with `children`, which keeps them as `manifests` wants them, and `look`, which turns cached
objects into observed values. Called by a pass; `admission` asks who owns an object. It may import
`manifests`, `planning` and `servers`, which it asks before a pod is deleted.
"""
