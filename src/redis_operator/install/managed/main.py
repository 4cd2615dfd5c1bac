"""`redis-operator installer`, and `redis-operator strategy`, which a Job of a version runs."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from kubecontroller import (
    Applier,
    Client,
    Controller,
    HealthServer,
    HttpTransport,
    Key,
    KubeError,
    LeaseSettings,
    Manager,
    Metrics,
    load,
    set_up,
)
from kubecontroller.client.objects import CONFIG_MAPS, DEPLOYMENTS, JOBS, NAMESPACES
from kubecontroller.runtime import (
    CachesNotSynced,
    CannotServe,
    Change,
    Format,
    LeadershipLost,
    Watch,
    default_identity,
)
from redis_operator.install.installer import FIELD_MANAGER
from redis_operator.install.options import DEFAULT_NAMESPACE, Options
from redis_operator.install.strategy import generate, name_of, written

from .choices import Named
from .job import OPTIONS_VARIABLE
from .objects import INSTALLER
from .reconcile import REDIS_OPERATORS, Installations

__all__ = ["add_installations", "run_installer", "write_strategy"]

_ONE: Final[Key] = ("", DEFAULT_NAMESPACE)
_ANNOTATION: Final = "redisoperator.dev/intent"
_DEADLINE_SECONDS: Final = 600.0


def run_installer(arguments: Sequence[str]) -> int:
    """Reconcile the `RedisOperator`, until stopped."""
    given = _parser().parse_args(arguments)
    set_up(style=Format(given.log), level=logging.INFO)
    try:
        access = load(file=given.kubeconfig)
    except KubeError as error:
        sys.stderr.write(f"redis-operator: {error}\n")
        return 1
    client = Client(HttpTransport(access, user_agent=FIELD_MANAGER), field_manager=FIELD_MANAGER)
    metrics = Metrics()
    manager = Manager(
        client,
        name=INSTALLER,
        lease=LeaseSettings(given.namespace, INSTALLER, default_identity()),
        connect=lambda: HttpTransport(access, user_agent=FIELD_MANAGER),
        health=HealthServer(metrics, host=given.health_host, port=given.health_port),
        metrics=metrics,
    )
    add_installations(manager, given.namespace)
    try:
        asyncio.run(manager.run())
    except (KubeError, CachesNotSynced, CannotServe) as error:
        sys.stderr.write(f"redis-operator: {error}\n")
        return 1
    except LeadershipLost as lost:
        sys.stderr.write(f"redis-operator: {lost}\n")
        return 2
    return 0


def add_installations(
    manager: Manager, namespace: str, *, clock: Callable[[], float] = time.time
) -> Controller:
    """Add the controller of the `RedisOperator` to a manager in a namespace."""
    operators = manager.informer(REDIS_OPERATORS)
    namespaces = manager.informer(NAMESPACES)

    def known() -> Iterator[Named]:
        for one in namespaces.cache:
            if not one.metadata.is_deleting:
                yield one.metadata.name, dict(one.metadata.labels or {})

    def the_one(change: Change[Any]) -> list[Key]:
        del change
        return [_ONE]

    installations = Installations(
        client=manager.client,
        applier=Applier(manager.client, annotation=_ANNOTATION),
        namespace=namespace,
        operator=operators.cache.get,
        namespaces=known,
        clock=clock,
    )
    others = [manager.informer(kind, namespace=namespace) for kind in (DEPLOYMENTS, JOBS)]
    controller = Controller(
        "redisoperator",
        installations.reconcile,
        [Watch(operators), Watch(namespaces, the_one), *(Watch(i, the_one) for i in others)],
        workers=1,
        deadline=_DEADLINE_SECONDS,
    )
    manager.add(controller)
    return controller


def write_strategy(arguments: Sequence[str]) -> int:
    """Write the objects of this version, with the options of the environment, and end."""
    del arguments
    text = os.environ.get(OPTIONS_VARIABLE, "")
    try:
        options = msgspec.json.decode(text, type=Options)
    except msgspec.DecodeError as error:
        sys.stderr.write(f"redis-operator: {OPTIONS_VARIABLE} cannot be read: {error}\n")
        return 1

    async def write() -> None:
        transport = HttpTransport(load(), user_agent=FIELD_MANAGER)
        client = Client(transport, field_manager=FIELD_MANAGER)
        try:
            made = written(generate(options))
            # the installer finds it by the name that it gave to the options
            made["metadata"]["name"] = os.environ.get("STRATEGY_NAME") or name_of(options)
            await client.apply(CONFIG_MAPS.plain(), made)
        finally:
            await client.close()

    try:
        asyncio.run(write())
    except KubeError as error:
        sys.stderr.write(f"redis-operator: {error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="redis-operator installer",
        description="Carry out what the RedisOperator of a cluster says.",
    )
    parser.add_argument("--kubeconfig", default="", help="else KUBECONFIG, else the pod's own")
    parser.add_argument(
        "--namespace",
        default=os.environ.get("POD_NAMESPACE", DEFAULT_NAMESPACE),
        help="namespace of the operator",
    )
    parser.add_argument("--health-host", default="0.0.0.0")
    parser.add_argument("--health-port", type=int, default=8080, help="0 takes any free one")
    parser.add_argument("--log", choices=[f.value for f in Format], default=Format.HUMAN.value)
    return parser
