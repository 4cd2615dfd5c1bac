"""The Job that lists the objects of a version: it runs that version's own image. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from redis_operator.install.objects import INSTALLATION_LABEL
from redis_operator.install.options import Options
from redis_operator.install.strategy import STRATEGY_LABEL, name_of
from redis_operator.install.workload import from_pod, restricted_container, restricted_pod

from .objects import STRATEGY_ACCOUNT

__all__ = ["OPTIONS_VARIABLE", "strategy_job"]

OPTIONS_VARIABLE: Final = "INSTALLATION_OPTIONS"
"""The variable with the options for the program, as JSON."""
_RETRIES: Final = 3
_DEADLINE_SECONDS: Final = 600


def strategy_job(options: Options) -> dict[str, Any]:
    """Return the Job that writes the strategy for some choices."""
    labels = {STRATEGY_LABEL: "job", INSTALLATION_LABEL: options.namespace}
    pod: dict[str, Any] = {
        "serviceAccountName": STRATEGY_ACCOUNT,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "securityContext": restricted_pod(),
        "containers": [
            {
                "name": "strategy",
                "image": options.image,
                "imagePullPolicy": options.pull_policy,
                "command": ["redis-operator"],
                "args": ["strategy"],
                "env": [
                    from_pod("POD_NAMESPACE", "metadata.namespace"),
                    {"name": "STRATEGY_NAME", "value": name_of(options)},
                    {
                        "name": OPTIONS_VARIABLE,
                        "value": msgspec.json.encode(options, order="deterministic").decode(),
                    },
                ],
                "resources": {
                    "requests": {"cpu": "50m", "memory": "64Mi"},
                    "limits": {"memory": "256Mi"},
                },
                "securityContext": restricted_container(),
            }
        ],
        **options.placement,
    }
    if options.pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in options.pull_secrets]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "namespace": options.namespace,
            "name": name_of(options),
            "labels": labels,
        },
        "spec": {
            "backoffLimit": _RETRIES,
            "activeDeadlineSeconds": _DEADLINE_SECONDS,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
