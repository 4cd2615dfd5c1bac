"""The part of an object's metadata that our kinds carry into pure code."""

from __future__ import annotations

from msgspec import Struct, field

__all__ = ["Condition", "Metadata", "Part"]


class Part(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=False):
    """What all parts of the kind have in common: immutable, camelCase outside, defaults unsaid."""


class Metadata(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Who an object is. Decoded from any Kubernetes object; what is not listed is dropped."""

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
        """Whether somebody asked for the object to go away."""
        return self.deletion_timestamp is not None


class Condition(Struct, frozen=True, rename="camel"):
    """One truth about an object, in the shape every Kubernetes tool reads."""

    type: str
    status: str
    reason: str
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int = 0
