"""The actions on a database, as values.

Each action carries what must still be true when it is carried out; the executor checks it against
the live server or object right before the effect, and refuses when it has changed. Each is safe to
repeat. The actions of all modes are here; the others are beside the rules of their mode.
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
    "LabelClaim",
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
    """Restore the removed labels of exactly this pod (uid). K-27"""

    pod: str
    uid: str
    labels: tuple[tuple[str, str], ...]


class LabelRole(Struct, frozen=True):
    """Set the role label by which Services select primaries and replicas."""

    pod: str
    uid: str
    role: Role


class DeletePod(Struct, frozen=True):
    """Delete exactly this pod (uid); its workload recreates it.

    `expect_id` and `expect_role` are the answers of the server when it was observed. They are
    checked on the live server; if it does not respond any more it may have been promoted, so its
    pod stays. A primary with slots is deleted only when there is no better option and `expect_role`
    says PRIMARY. Both are None for a server that did not respond.
    """

    pod: str
    uid: str
    why: str
    expect_id: ServerId | None = None
    expect_role: Role | None = None


class DiscardData(Struct, frozen=True):
    """Delete a pod whose server cannot load its files, and the files: its claim, if it has one.

    Only while the pod is the same and not up, and `data_holder` is still a primary that holds keys:
    another server must hold the data of the files. I1
    """

    pod: str
    uid: str
    data_holder: At
    claim: str = ""
    claim_uid: str = ""


class ScaleWorkload(Struct, frozen=True):
    """Set `spec.replicas` of a shard's StatefulSet, if it still is `from_pods`.

    With `discard` the removed pods will not come back: the storage policy decides about their
    claims.
    """

    shard: int
    uid: str
    from_pods: int
    to_pods: int
    discard: bool = False


class DeleteWorkload(Struct, frozen=True):
    """Delete the objects of a removed shard; the storage policy decides about its claims."""

    shard: int
    uid: str


class ResizePod(Struct, frozen=True):
    """Give exactly this pod (uid) other resources while it runs, as (`limits.memory`, amount)."""

    pod: str
    uid: str
    resources: tuple[tuple[str, str], ...]


class GrowVolume(Struct, frozen=True):
    """Request a bigger volume."""

    claim: str
    uid: str
    size: int


class LabelClaim(Struct, frozen=True):
    """Set labels of exactly this claim (uid)."""

    claim: str
    uid: str
    labels: tuple[tuple[str, str], ...]


Action: TypeAlias = (
    ConfigSet
    | LabelPod
    | LabelRole
    | DeletePod
    | DiscardData
    | ScaleWorkload
    | DeleteWorkload
    | GrowVolume
    | LabelClaim
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
"""Steps that end, start or change pods, or their volumes."""
