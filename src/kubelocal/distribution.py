"""What makes a local cluster the cluster of a product: names, images, and initial objects.

A product that ships a local cluster passes one of these in; nothing else here knows the product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from kubecontroller import Manifest
from kubelocal.node.images import Catalog

__all__ = ["Distribution", "no_objects"]


def no_objects() -> Sequence[Manifest]:
    """Return nothing: the cluster starts empty."""
    return ()


class Distribution(Struct, frozen=True):
    """The names of a local cluster, its images, and its initial objects.

    `objects` are applied whenever the control plane starts: custom resource definitions, and the
    permissions of `account` (namespace and name of a ServiceAccount). That account is the
    operator's: its kubeconfig is written once it may be used.
    """

    name: str = "kubelocal"  # of the folder with all instances, and of the locks on this machine
    command: str = "kubelocal"  # what people type
    home_variable: str = "KUBELOCAL_HOME"  # of the environment: another folder for all instances
    power_annotation: str = "kubelocal/power"
    catalog: Catalog = Catalog()
    objects: Callable[[], Sequence[Manifest]] = no_objects
    account: tuple[str, str] | None = None
