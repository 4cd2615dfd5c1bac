"""The small controllers of local mode, for the kinds we serve.

Together they do what kube-controller-manager and kube-scheduler do in a cluster.

Each controller is a pure function from what is stored (`View`) to what should change (`Changes`);
`loop` runs them on our own runtime. None remembers anything between calls, so each may be killed
at any instruction and simply looks again.
"""
