"""What is sent between the keeper and its peers: packets, and descriptors with them."""

from __future__ import annotations

import array
import os
import socket
from typing import NamedTuple

__all__ = ["Message", "descriptors_of"]


class Message(NamedTuple):
    """A message for a peer, and a descriptor that is passed with it."""

    text: bytes
    passed: int | None

    def send(self, peer: socket.socket) -> None:
        """Send it; raise BlockingIOError while the buffer of the peer is full."""
        socket.send_fds(peer, [self.text], [] if self.passed is None else [self.passed])

    def close(self) -> None:
        """Close the descriptor, which the peer has its own copy of."""
        if self.passed is not None:
            os.close(self.passed)


def descriptors_of(passed: list[tuple[int, int, bytes]]) -> list[int]:
    """Return the descriptors that came with a packet."""
    numbers = array.array("i")
    for _, _, payload in passed:
        numbers.frombytes(payload[: len(payload) - len(payload) % numbers.itemsize])
    return list(numbers)
