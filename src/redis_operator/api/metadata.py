"""The part of an object's metadata that the custom resources pass on to pure code."""

from __future__ import annotations

from msgspec import Struct, field

__all__ = ["Condition", "Metadata", "Part"]


class Part(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=False):
    """The base of all types of a custom resource: immutable, camelCase outside, defaults
    omitted."""


class Metadata(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The identity of an object, decoded from any Kubernetes object; other fields are dropped."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()

    @property
    def is_being_deleted(self) -> bool:
        """Whether the deletion of the object was requested."""
        return self.deletion_timestamp is not None


class Condition(Struct, frozen=True, rename="camel"):
    """One condition of an object, in the standard format of Kubernetes."""

    type: str
    status: str
    reason: str
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int = 0
