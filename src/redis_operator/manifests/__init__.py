"""From a `Redis` to the Kubernetes objects that run it. Pure: same input, same bytes.

Nothing here reads a clock, a cluster or a random number: passwords, images and versions are facts
that the caller passes in. `layouts` says which objects each mode has; the scripts of pods are
modules named `..._scripts`; `workers` has the Jobs of backups.

May import: `api`, the values of `redis`, and `backup.task`.
Called by: `operator`, `translation` and `install`.
Begin with: `build` and `layouts`.
"""
