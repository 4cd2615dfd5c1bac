"""Loopback addresses for tests and measurements that run side by side.

Each process locks one network 127.N.0.0/16 for as long as it lives and takes its addresses only
from that, each once. The lock is that of local clusters (`Instances.hold_network`) with numbers
that those never use, so no other worker, checkout or user of the machine gets the same address.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import socket
from collections.abc import Iterator
from functools import lru_cache

from kubelocal.distribution import Distribution
from kubelocal.instance import InstanceError, Instances

__all__ = ["free_host", "free_subnet", "held_number"]

_FIRST, _LAST = 120, 250
_SUBNETS = range(1, 100)  # for pods of a node agent, one after another
_HOSTS = range(100, 250)


class _Block:
    """The network that this process holds, and the addresses that it has given out."""

    def __init__(self) -> None:
        self._hold = contextlib.ExitStack()
        self.number = self._claim()
        self.hosts: Iterator[str] = itertools.cycle(
            f"127.{self.number}.{third}.{fourth}" for third in _HOSTS for fourth in range(1, 251)
        )
        self.subnets: Iterator[str] = itertools.cycle(
            f"127.{self.number}.{third}.0/24" for third in _SUBNETS
        )
        atexit.register(self._hold.close)

    def _claim(self) -> int:
        instances = Instances(Distribution())
        for number in range(_LAST, _FIRST - 1, -1):
            with contextlib.suppress(InstanceError):
                self._hold.enter_context(instances.hold_network(number))
                return number
        raise RuntimeError(f"all loopback networks from 127.{_FIRST} to 127.{_LAST} are held")


@lru_cache(maxsize=1)
def _block(_process: int) -> _Block:
    return _Block()


def held_number() -> int:
    """The number N of the network 127.N.0.0/16 that no other process uses now."""
    return _block(os.getpid()).number


def free_subnet() -> str:
    """A network of 254 addresses that was not given out recently."""
    return next(_block(os.getpid()).subnets)


def free_host(port: int = 6379) -> str:
    """An address that was not given out recently, free on the port and on its bus port."""
    for _ in range(1000):
        host = next(_block(os.getpid()).hosts)
        with contextlib.suppress(OSError), socket.socket() as client, socket.socket() as bus:
            client.bind((host, port))
            bus.bind((host, port + 10000))
            return host
    raise RuntimeError("no free loopback address was found in 1000 tries")
