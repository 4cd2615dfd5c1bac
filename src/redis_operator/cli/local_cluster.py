"""The local cluster as this product brings it: its names, what is in it, and its processes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any, Final

from kubelocal import supervisor
from kubelocal.distribution import Distribution
from kubelocal.instance import (
    SUPERVISOR,
    Instance,
    InstanceError,
    Instances,
    Settings,
    operator_address,
)
from kubelocal.supervisor import Child
from redis_operator.cli.images import CATALOG

__all__ = ["INSTANCES", "POWER_ANNOTATION", "PROGRAM", "children_of", "supervise"]

PROGRAM: Final = ("-m", "redis_operator.cli.main")
POWER_ANNOTATION: Final = "local.redisoperator.dev/power"
_ACCOUNT: Final = "redis-operator"


def _objects() -> Sequence[dict[str, Any]]:
    """Return our definitions, and the operator's account with the rights it has on Kubernetes."""
    # loaded here: only the control plane applies them
    from redis_operator.api.crd import crds  # noqa: PLC0415
    from redis_operator.install.rights import account  # noqa: PLC0415

    return [*crds().values(), *account()]


INSTANCES: Final = Instances(
    Distribution(
        name="redis-operator",
        command="redis-operator",
        home_variable="REDIS_OPERATOR_HOME",
        power_annotation=POWER_ANNOTATION,
        catalog=CATALOG,
        objects=_objects,
        account=(_ACCOUNT, _ACCOUNT),
    )
)


def children_of(instance: Instance, settings: Settings) -> list[Child]:
    """Return the processes of a cluster, in the order in which they are stopped."""
    operator = Child(
        "operator",
        (
            *PROGRAM,
            *("run", "--wait-for-server", "--kubeconfig", str(instance.operator_kubeconfig)),
            "--binding-addresses",  # there is no cluster DNS here
            "--no-election",  # the supervisor starts one at a time, and at once after a crash
            *("--secret-refresh", "5"),  # nodes here write changed Secrets at once
            *("--health-host", operator_address(settings.network)),
        ),
    )
    plane = Child("control-plane", (*PROGRAM, "control-plane", "--name", instance.name))
    return [operator, plane] if settings.operator else [plane]


def supervise(name: str) -> int:
    """Keep the processes of an instance that `up --detach` made; return the exit code."""
    instance = INSTANCES.find(name)
    settings = instance.settings()
    if settings is None:
        sys.stderr.write(f"there is no local cluster called {name!r}\n")
        return 1
    children = children_of(instance, settings)
    try:
        with INSTANCES.hold_network(settings.network, by=SUPERVISOR):
            asyncio.run(supervisor.supervise(instance, children, report=lambda _: None))
    except InstanceError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0
