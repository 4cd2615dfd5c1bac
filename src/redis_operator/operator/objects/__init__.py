"""Kubernetes objects of a database: what planning sees of them, and actions on them.

`children` keeps them as `manifests` wants them, `look` turns cached objects into observed values,
`ending` deletes them with their database, `ownership` says who owns an object.

May import: `manifests`, `planning`, `api`, `redis`, `kubecontroller`, and `servers`, which it asks
    before a pod is deleted.
Called by: the modules of a pass (`operator.passes`, `operator.observe`, `operator.act`);
    `admission`; `install.remover`.
Begin with: `children` and `look`.
"""
