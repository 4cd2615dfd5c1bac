"""Operators that run for leader, and the promise that only one of them acts."""

from __future__ import annotations

import random

from kubecontroller.client.api import Client
from kubecontroller.runtime.lease import LeaseSettings
from kubecontroller.runtime.manager import Manager
from kubecontroller.testing.election import ElectionTask
from redis_operator.install.installer import kind_of
from redis_operator.install.inventory import item_of
from redis_operator.install.rights import OPERATOR, bound, election_role
from redis_operator.manifests.names import MANAGER

from .api import ProcessTransport
from .process import Effect, Journal, Process
from .system import Broken, Simulation

__all__ = ["Elections"]


class Elections:
    """Lets every operator of a simulation that starts from now on run for leader.

    What they write to the lease is no effect, and nothing befalls it but what befalls all calls of
    a process. An effect of one of them while another leads breaks the simulation.
    """

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._managers: dict[str, tuple[Process, Manager, ElectionTask]] = {}

    async def prepare(self) -> None:
        """Give the operator's account the rights that an election needs, and begin."""
        given = election_role(OPERATOR)
        for document in (given, bound(given, namespace=OPERATOR)):
            await self._simulation.client.apply(kind_of(item_of(document)), document)
        self._simulation.make_manager = self._make_manager
        self._simulation.journal.begun.append(self._check)

    @property
    def leader(self) -> str:
        """The name of the process that leads; empty if there is none."""
        return next((name for name in self._managers if self._leads(name)), "")

    def process(self, name: str) -> Process:
        """Return a process by its name."""
        return self._managers[name][0]

    def stop(self, name: str) -> None:
        """Ask an operator to end, as its Deployment does."""
        process, manager, _ = self._managers[name]
        process.was_told_to_stop = True
        manager.request_stop()

    def _leads(self, name: str) -> bool:
        process, _, election = self._managers[name]
        return process.alive and election.is_leader()

    def _make_manager(self, process: Process, client: Client) -> Manager:
        simulation = self._simulation
        assert isinstance(client.transport, ProcessTransport)
        election = ElectionTask(
            LeaseSettings(OPERATOR, OPERATOR, process.name),
            client.transport.of(Journal()),
            wall_clock=simulation.now,
            random=random.Random(f"{simulation.seed} {process.name}").random,
        )
        manager = Manager(client, name=MANAGER, election=election, exit_now=lambda _: process.die())
        self._managers[process.name] = (process, manager, election)
        return manager

    def _check(self, effect: Effect) -> None:
        others = [n for n in self._managers if n != effect.process and self._leads(n)]
        if others:
            self._simulation.failures.append(Broken(f"{effect} while {others[0]} leads"))
