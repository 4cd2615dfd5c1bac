"""Variables and files of a container that come from the API; pure.

`variables` composes the environment, `downward` reads fields of the pod, `payloads` makes the files
of ConfigMaps, Secrets and projections.

May import: `apiserver.kinds`.
Called by: `pod`, `volumes`, `process`, and `agent`.
Begin with: `variables`.
"""
