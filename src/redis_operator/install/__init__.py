"""The operator's own installation: its objects (pure), and how they are applied and removed.

Begin with `objects.stages` and `installer`. `options`, `rights`, `workload`, `admission`, `objects`
and `inventory` are pure: they describe the installation. `installer` and `remover` write it to a
cluster. It may import `api` and `kubecontroller`; called by the CLI.
"""
