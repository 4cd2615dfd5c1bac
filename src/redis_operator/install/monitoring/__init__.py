"""Monitoring of the operator and its databases by Prometheus and Grafana. Pure.

`alerts` is the table of alerts, each with a page in docs/runbooks; `dashboard` is the one of
Grafana; `objects` puts both into Kubernetes objects. They use only metrics that `/metrics` has.
"""
