"""StatefulSets, Deployments, ReplicaSets and Jobs; pure. Begin with `statefulset`."""
