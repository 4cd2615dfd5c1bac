"""The scheduler: chooses the node of a pod, or says why none fits; pure.

`affinity` has the rules of pods about labels of nodes and about other pods.

May import: `kubecontroller`, `apiserver.kinds`, `engine`.
Called by: `loop`.
Begin with: `scheduler`.
"""
