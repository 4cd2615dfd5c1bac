"""Folders that a pod's containers mount: claims, scratch space, files from the API.

`atomic` replaces the files of a volume as a whole, so that readers see all of the old or all of the
new.

May import: `kubecontroller`, `process`, `environment`.
Called by: `pod.runner`.
Begin with: `pod_volumes`.
"""
