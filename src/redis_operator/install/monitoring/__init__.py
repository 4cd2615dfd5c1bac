"""What Prometheus and Grafana are told of the operator and its databases. Pure.

`alerts` is the table of alerts, each with a page in docs/runbooks; `dashboard` is what Grafana
shows; `objects` puts both into Kubernetes objects. They use only figures that `/metrics` has.
"""
