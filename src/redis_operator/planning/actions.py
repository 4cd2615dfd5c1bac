"""Everything that can be done to a database, as values.

Each action carries what must still be true at the moment it is done; the executor checks it against
the live server or object right before the effect, and refuses when the world has moved on. Each is
safe to repeat. Here are those that every mode knows; the others are beside the rules of their mode.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from msgspec import Struct

from .at import At
from .cluster.actions import ClusterAction
from .failover.actions import FailoverAction
from .identity import Role, ServerId

__all__ = [
    "ON_OBJECTS",
    "Action",
    "ConfigSet",
    "DeletePod",
    "DeleteWorkload",
    "DiscardData",
    "GrowVolume",
    "LabelPod",
    "LabelRole",
    "ResizePod",
    "ScaleWorkload",
]


class ConfigSet(Struct, frozen=True):
    """`CONFIG SET` of these values, in this order."""

    node: At
    values: tuple[tuple[str, str], ...]


class LabelPod(Struct, frozen=True):
    """Give exactly this pod (uid) back labels that were taken from it. K-27"""

    pod: str
    uid: str
    labels: tuple[tuple[str, str], ...]


class LabelRole(Struct, frozen=True):
    """Set the role label by which Services find primaries and replicas."""

    pod: str
    uid: str
    role: Role


class DeletePod(Struct, frozen=True):
    """Delete exactly this pod (uid); its workload recreates it.

    `expect_id` and `expect_role` are what the server answered when it was observed. They are
    checked on the live server; one that does not respond any more may have been promoted, so its
    pod stays. A primary with slots is only deleted when nothing better can be done and
    `expect_role` says PRIMARY. Both are None for a server that did not respond.
    """

    pod: str
    uid: str
    why: str
    expect_id: ServerId | None = None
    expect_role: Role | None = None


class DiscardData(Struct, frozen=True):
    """Delete a pod whose server cannot load its files, and those: its claim, if it has one.

    Only while the pod still is that one and is not up, and `keeper` still is a primary that holds
    keys: what the files held must be held by somebody. I1
    """

    pod: str
    uid: str
    keeper: At
    claim: str = ""
    claim_uid: str = ""


class ScaleWorkload(Struct, frozen=True):
    """Set `spec.replicas` of a shard's StatefulSet, if it still is `from_pods`.

    With `discard`, the pods that go are not to come back: their claims go by the storage policy.
    """

    shard: int
    uid: str
    from_pods: int
    to_pods: int
    discard: bool = False


class DeleteWorkload(Struct, frozen=True):
    """Remove the objects of a shard that left; its claims go by the storage policy."""

    shard: int
    uid: str


class ResizePod(Struct, frozen=True):
    """Give exactly this pod (uid) other resources while it runs, as (`limits.memory`, amount)."""

    pod: str
    uid: str
    resources: tuple[tuple[str, str], ...]


class GrowVolume(Struct, frozen=True):
    """Ask for a bigger volume."""

    claim: str
    uid: str
    size: int


Action: TypeAlias = (
    ConfigSet
    | LabelPod
    | LabelRole
    | DeletePod
    | DiscardData
    | ScaleWorkload
    | DeleteWorkload
    | GrowVolume
    | ResizePod
    | ClusterAction
    | FailoverAction
)

ON_OBJECTS: Final = (
    DeletePod,
    DiscardData,
    ScaleWorkload,
    DeleteWorkload,
    GrowVolume,
    ResizePod,
)
"""Steps that end, start or alter pods, or their volumes."""
