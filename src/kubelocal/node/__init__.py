"""The node agent: pods as groups of real processes on one machine.

`agent` follows the pods of its nodes and has a `pod.runner` for each; `images` says which program
an image stands for; `api` is what it reads and writes. May import `apiserver`, not
`controllers`. Called by `control_plane`; begin with `agent`.

Rooms from the outside in: `pod`, `volumes`, `process`, `environment`.
"""
