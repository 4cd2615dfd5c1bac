"""The operator's own installation: its objects (pure), and how they are applied and removed.

`options`, `rights`, `workload`, `admission`, `objects` and `inventory` are pure: they describe the
installation. `installer` and `remover` write it to a cluster. `managed` is the installer in the
cluster, `monitoring` the alerts and the dashboard.

May import: `api`, `manifests`, `operator` (to delete databases) and `kubecontroller`; no command
    line.
Called by: `cli`; simulations run the operator with its `rights`.
Begin with: `objects.stages` and `installer`.
"""
