"""What makes a local cluster somebody's own: names, images, and what is in it from the start.

Whoever brings a local cluster to its users hands one of these in; nothing else here knows them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from kubecontroller.client.meta import Manifest
from kubelocal.node.images import Catalog

__all__ = ["Distribution", "no_objects"]


def no_objects() -> Sequence[Manifest]:
    """Return nothing: the cluster begins empty."""
    return ()


class Distribution(Struct, frozen=True):
    """The names a local cluster goes by, the images it has, and the objects it begins with.

    `objects` are applied whenever the control plane starts: custom resource definitions, and what
    `account` (namespace and name of a ServiceAccount) may do. That account is the operator's: its
    kubeconfig is written once it may be used.
    """

    name: str = "kubelocal"  # of the folder with all instances, and of what is held on this machine
    command: str = "kubelocal"  # what people type
    home_variable: str = "KUBELOCAL_HOME"  # of the environment: another folder for all instances
    power_annotation: str = "kubelocal/power"
    catalog: Catalog = Catalog()
    objects: Callable[[], Sequence[Manifest]] = no_objects
    account: tuple[str, str] | None = None
