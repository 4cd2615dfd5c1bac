"""Monitoring of the operator and its databases by Prometheus and Grafana. Pure.

`alerts` is the table of alerts, each with a page in docs/runbooks; `dashboard` is the one of
Grafana; `objects` puts both into Kubernetes objects. They use only metrics that `/metrics` has.

May import: `manifests.names`, and of `install` what is pure.
Called by: `install.objects` and `managed.objects`.
Begin with: `alerts`.
"""
