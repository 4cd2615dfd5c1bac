"""Errors of a node.

NodeError
├── StartError        a process could not be started (stage, errno)
├── KeeperError       the keeper process cannot be reached or started
├── ImageError        an image has no program here (reason: ErrImagePull, InvalidImageName, ...)
├── ConfigError       a container refers to a missing object
├── VolumeError       a volume cannot be made
├── AddressError      no loopback address is free
└── ModeError         the wanted way to mount is not allowed on this machine
"""

from __future__ import annotations

__all__ = [
    "AddressError",
    "ConfigError",
    "ImageError",
    "KeeperError",
    "ModeError",
    "NodeError",
    "StartError",
    "VolumeError",
]


class NodeError(Exception):
    """Base of all errors of a node."""


class StartError(NodeError):
    """A process could not be started."""

    def __init__(self, stage: str, number: int, message: str) -> None:
        super().__init__(message)
        self.stage = stage
        self.number = number


class KeeperError(NodeError):
    """The keeper process cannot be reached or started."""


class ImageError(NodeError):
    """An image has no program on this machine."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ConfigError(NodeError):
    """A container refers to a missing object (`CreateContainerConfigError`)."""


class VolumeError(NodeError):
    """A volume cannot be made (`FailedMount`)."""


class AddressError(NodeError):
    """No loopback address is free."""


class ModeError(NodeError):
    """The requested way to give containers their mount paths is not allowed on this machine."""
