"""Redis servers and sentinels: links to them, questions to them, and actions on them.

`probe` asks one server, `actions` has each step with its precondition and its verification, `links`
holds the connections. The differences between modes are in the dialects, listed in `dialects`.

May import: `planning`, `manifests`, `api`, `redis` and `kubecontroller`.
Called by: the modules of a pass (`operator.observe`, `operator.act`); `objects.actions`.
Begin with: `probe` and `actions`.
"""
