"""StatefulSets, Deployments, ReplicaSets and Jobs: which pods they create and delete; pure.

Each module is one kind; `revisions` keeps the history of a template for those that have one.

May import: `kubecontroller`, `engine`.
Called by: `loop`.
Begin with: `statefulset`.
"""
