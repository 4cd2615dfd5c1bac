"""What can go wrong on a node.

NodeError
├── StartError        a process could not be started (stage, errno)
├── KeeperError       the keeper process cannot be reached or started
├── ImageError        an image has no program here (reason: ErrImagePull, InvalidImageName, ...)
├── ConfigError       a container refers to something that is not there
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
    """Something on this node is not as a pod needs it."""


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
    """A container refers to something that is not there (`CreateContainerConfigError`)."""


class VolumeError(NodeError):
    """A volume cannot be made (`FailedMount`)."""


class AddressError(NodeError):
    """No loopback address is free."""


class ModeError(NodeError):
    """The wanted way to give containers their mount paths is not allowed on this machine."""
