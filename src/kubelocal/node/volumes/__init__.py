"""Folders that a pod's containers mount: claims, scratch space, files from the API.

Called by `pod.runner`; begin with `pod_volumes`.
"""
