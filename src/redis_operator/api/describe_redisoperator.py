"""The description and the limits of the fields of `RedisOperator`. See `describe`."""

from __future__ import annotations

from typing import Any, Final

from .limits import IMAGE, LOCAL_NAME, PLAIN_TEXT, TEXTS, described

__all__ = ["REDISOPERATOR_FIELDS"]

_SCRAPED: Final = r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?|\*)$"
_VERSION: Final = r"^[0-9][0-9A-Za-z.+-]*$"

REDISOPERATOR_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "RedisOperator.spec": described("What is to be installed."),
    "RedisOperator.status": described("The observed state. Only the installer writes it."),
    "RedisOperatorSpec.image": described(
        "Image of the operator. It decides the version.", pattern=IMAGE, maxLength=500, minLength=1
    ),
    "RedisOperatorSpec.version": described(
        "Version that the image is expected to be; an image of another one is not installed. "
        "Absent: any version.",
        pattern=_VERSION,
        maxLength=63,
    ),
    "RedisOperatorSpec.image_pull_policy": described("When a node pulls the image."),
    "RedisOperatorSpec.image_pull_secrets": described(
        "Secrets of the operator's namespace with the credentials of image registries.",
        maxItems=16,
        listKey="name",
    ),
    "RedisOperatorSpec.replicas": described(
        "Pods: one leads, the others are on standby.", minimum=1, maximum=10
    ),
    "RedisOperatorSpec.namespaces": described(
        "The namespaces whose databases are reconciled. Absent: all.",
        rules=[
            (
                "!has(self.names) || !has(self.matchLabels)",
                "use names or matchLabels, not both",
            )
        ],
    ),
    "RedisOperatorSpec.resources": described("Resources of each pod of the operator."),
    "RedisOperatorSpec.placement": described("Where the operator's pods run."),
    "RedisOperatorSpec.verbose": described("Whether debug messages are logged too."),
    "RedisOperatorSpec.arguments": described(
        "More arguments for `redis-operator run`, such as --workers=16.",
        maxItems=32,
        values={"maxLength": 256, "pattern": PLAIN_TEXT},
    ),
    "RedisOperatorSpec.update_approval": described(
        "Whether another version is installed at once (Automatic), or waits until the annotation "
        "redisoperator.dev/approve-update names it (Manual)."
    ),
    "RedisOperatorSpec.components": described(
        "Parts of the installation that can be switched off: their objects are deleted, and "
        "databases are not touched."
    ),
    "RedisOperatorSpec.certificates": described(
        "Who issues the certificate of the admission webhooks. Absent: the operator itself."
    ),
    "Certificates.issuer_ref": described(
        "An issuer of cert-manager (an Issuer must be in its namespace). The cluster must "
        "have cert-manager with its cainjector; the operator only reads the certificate."
    ),
    "Components.admission": described(
        "The API server asks the operator before it stores these kinds; the operator refuses "
        "objects that it could not apply. Databases are protected from deletion without it too."
    ),
    "Components.monitoring": described(
        "ServiceMonitors and alerts, where the cluster serves these kinds, and a dashboard."
    ),
    "AdmissionComponent.enabled": described("Whether it is installed."),
    "MonitoringComponent.enabled": described("Whether it is installed."),
    "MonitoringComponent.labels": described(
        "Labels of the ServiceMonitors and alerts, by which a Prometheus selects them, such as "
        "release: NAME.",
        maxProperties=16,
        values={"maxLength": 63, "pattern": PLAIN_TEXT},
    ),
    "MonitoringComponent.runbook_url": described(
        "Address of the pages of docs/runbooks; the name of the alert is added to it.",
        pattern=PLAIN_TEXT,
        minLength=1,
        maxLength=500,
    ),
    "MonitoringComponent.scrape_namespaces": described(
        "Namespaces whose pods may read the metrics of the operator, beside its own and those "
        "labelled metrics: enabled; * means all. By a NetworkPolicy, also while monitoring is "
        "switched off.",
        maxItems=64,
        values={"maxLength": 63, "pattern": _SCRAPED},
    ),
    "MonitoringComponent.secured": described(
        "Serve the metrics of the operator over TLS on port 8443, only to accounts that may get "
        "the path /metrics (ClusterRole redis-operator-metrics-reader).",
    ),
    "WatchedNamespaces.names": described(
        "Namespaces by name; each must exist.",
        maxItems=256,
        values={"maxLength": 63, "pattern": LOCAL_NAME},
    ),
    "WatchedNamespaces.match_labels": described(
        "Namespaces with all these labels. One that gets them later is reconciled after a rolling "
        "restart of the operator.",
        maxProperties=16,
        values={"maxLength": 63, "pattern": PLAIN_TEXT},
    ),
    "Placement.node_selector": described("Labels that nodes must have.", **TEXTS),
    "Placement.tolerations": described("Taints of nodes that the pods tolerate.", maxItems=64),
    "Placement.affinity": described("Affinity of the pods."),
    "Placement.priority_class_name": described(
        "Priority class of the pods.", pattern=r"^([a-z0-9][-a-z0-9.]*)?$", maxLength=253
    ),
    "ComponentStatus.name": described("Name of the component."),
    "ComponentStatus.enabled": described("Whether it is to be installed."),
    "ComponentStatus.target_version": described("Desired version."),
    "ComponentStatus.observed_version": described(
        "Version of its objects; of the oldest while they differ."
    ),
    "ComponentStatus.image": described("Image that it runs."),
    "ComponentStatus.ready": described(
        "Of the controller: ready pods of the desired number. Of others: objects that "
        "exist, of those that this cluster supports."
    ),
    "ComponentStatus.message": described("What blocks it, if anything."),
    "RedisOperatorStatus.observed_generation": described("The generation that this is about."),
    "RedisOperatorStatus.phase": described("How far the installation is."),
    "RedisOperatorStatus.message": described("The state in one sentence."),
    "RedisOperatorStatus.target_version": described("Version that is to be installed."),
    "RedisOperatorStatus.observed_version": described("Version that was installed completely."),
    "RedisOperatorStatus.target_configuration": described(
        "Digest of the objects that are to be installed."
    ),
    "RedisOperatorStatus.observed_configuration": described(
        "Digest of the objects that were installed completely."
    ),
    "RedisOperatorStatus.conditions": described(
        "Available, Progressing and Degraded.", listKey="type"
    ),
    "RedisOperatorStatus.components": described("Each component.", listKey="name"),
}
