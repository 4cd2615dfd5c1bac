"""Puts one operator process together: caches, links, the reconciler and what wakes it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from kubecontroller.client.api import Client
from kubecontroller.client.config import load
from kubecontroller.client.http import HttpTransport
from kubecontroller.client.meta import Key
from kubecontroller.runtime.applier import Applier
from kubecontroller.runtime.changes import Added, Change, Deleted, Updated
from kubecontroller.runtime.consistency import Consistency
from kubecontroller.runtime.controller import URGENT_PRIORITY, Controller, Watch
from kubecontroller.runtime.lease import LeaseSettings, default_identity
from kubecontroller.runtime.manager import Manager
from kubecontroller.runtime.metrics import Metrics
from kubecontroller.runtime.server import HealthServer
from kubecontroller.runtime.triggers import (
    Predicate,
    annotations_changed,
    any_of,
    generation_changed,
    itself,
    labels_changed,
    lifetime_changed,
    not_,
    version_changed,
)
from redis_operator.manifests.names import DATABASE_LABEL, INTENT_ANNOTATION, MANAGER
from redis_operator.operator.absent import Absences
from redis_operator.operator.act import Actor
from redis_operator.operator.background import Background
from redis_operator.operator.children import Children
from redis_operator.operator.contexts import Contexts
from redis_operator.operator.ending import Ending
from redis_operator.operator.errors import Refused
from redis_operator.operator.links import Links
from redis_operator.operator.logins import Logins
from redis_operator.operator.measures import DatabaseCollector, actions_counter, losses_counter
from redis_operator.operator.memory import Memories
from redis_operator.operator.movers import SlotMovers
from redis_operator.operator.observe import Observer
from redis_operator.operator.passes import PassReader
from redis_operator.operator.password_store import PasswordStore
from redis_operator.operator.reconcile import Reconciler
from redis_operator.operator.redis_failovers import RedisFailovers
from redis_operator.operator.report import Reporter
from redis_operator.operator.resizing import Resizing
from redis_operator.operator.rotation import Rotations
from redis_operator.operator.server_measures import LastLooks, ServerCollector
from redis_operator.operator.settings import Settings
from redis_operator.operator.settle import Settler
from redis_operator.operator.sources import Sources
from redis_operator.operator.webhooks import add_admission
from redis_operator.operator.world import REDIS_FAILOVERS, REDISES, World
from redis_operator.planning.actions import Action

__all__ = ["add_databases", "add_failovers", "by_others", "make_manager"]

_LEASE: Final = "redis-operator"
_STUCK_SECONDS: Final = 60.0
_URGENT_WORKERS: Final = 4
"""Workers for databases that lost a server, though all others wait for an API that hangs."""


def make_manager(settings: Settings) -> Manager:
    """Return the whole operator, ready to run."""
    access = load(file=settings.kubeconfig, context=settings.context)
    client = Client(HttpTransport(access, user_agent=MANAGER), field_manager=MANAGER)
    metrics = Metrics()
    health = (
        HealthServer(metrics, host=settings.health_host, port=settings.health_port)
        if settings.health_port
        else None
    )
    lease = (
        LeaseSettings(settings.namespace, _LEASE, default_identity()) if settings.elect else None
    )
    manager = Manager(
        client,
        name=MANAGER,
        lease=lease,
        connect=lambda: HttpTransport(access, user_agent=MANAGER),
        health=health,
        metrics=metrics,
        stuck_after=_STUCK_SECONDS,
    )
    world = World(manager, settings.namespaces)
    add_databases(manager, settings, world=world)
    add_failovers(manager, settings)
    if settings.webhook_port:
        add_admission(manager, settings, world)
    return manager


def add_databases(
    manager: Manager,
    settings: Settings,
    *,
    world: World | None = None,
    clock: Callable[[], float] = time.time,
) -> Controller:
    """Add the controller of databases to a manager; `clock` tells seconds since the epoch."""
    world = world or World(manager, settings.namespaces)
    consistency = Consistency()
    for informers in (*world.children.values(), world.pods, world.redises):
        for informer in informers:
            resource = informer.kind.resource
            consistency.add_cache(resource, informer, namespace=informer.namespace)
    applier = Applier(manager.client, annotation=INTENT_ANNOTATION, consistency=consistency)

    def lost(uid: str) -> None:
        key = _owner_of(world, uid)
        if key is not None:
            controller.enqueue(
                key, reason="a server ended its connection", priority=URGENT_PRIORITY
            )

    links = Links(on_lost=lost)

    def leads() -> bool:
        return manager.election is None or manager.election.is_leader()

    def before(action: Action) -> None:
        if not leads():
            raise Refused(f"{type(action).__name__} is not done: this operator no longer leads")

    movers = SlotMovers(
        on_end=lambda key: controller.enqueue(key, reason="a slot migration ended"), may_act=leads
    )
    children = Children(
        manager.client,
        world,
        applier,
        namespace=settings.namespace,
        labels=dict(settings.pod_labels),
        binding_addresses=settings.binding_addresses,
    )
    passwords = PasswordStore(manager.client, world, clock=clock)
    rotations = Rotations(
        children,
        passwords,
        Logins(links, may_act=leads),
        refresh_seconds=settings.secret_refresh,
        clock=clock,
    )
    background = Background(
        on_end=lambda key: controller.enqueue(key, reason="a write was answered late")
    )
    looks = LastLooks()
    observer = _observer(manager.client, settings, world, links, looks=looks, clock=clock)
    reporter = _reporter(manager, applier)
    reconciler = Reconciler(
        world=world,
        reader=PassReader(
            world,
            observer,
            children,
            passwords,
            Memories(clock),
            movers,
            Sources(manager.client, links, clock=clock),
            background,
            behind=consistency.limitation,
        ),
        actor=Actor(manager.client, world, links, observer, movers, reporter, before),
        settler=Settler(manager.client, children, observer, rotations, movers),
        contexts=Contexts(children, rotations, movers, clock, consistency.limitation),
        reporter=reporter,
        ending=Ending(manager.client),
        interval=settings.probe_interval,
        clock=clock,
    )
    controller = Controller(
        "redis",
        reconciler.reconcile,
        list(_watches(world)),
        workers=settings.workers,
        urgent_workers=_URGENT_WORKERS,
        deadline=120.0,
        gate=consistency.limitation,
    )
    consistency.on_ready = lambda key: controller.enqueue(key, reason="the caches caught up")
    manager.metrics.registry.register(DatabaseCollector(world.all_redises))
    manager.metrics.registry.register(ServerCollector(looks))
    manager.add(controller)
    return controller


def add_failovers(
    manager: Manager, settings: Settings, *, clock: Callable[[], float] = time.time
) -> Controller:
    """Add the controller of `RedisFailover`s to a manager: each owns a database of its name.

    Where the kind is not installed, or nobody lets us see it, databases are looked after all the
    same.
    """
    scopes = settings.namespaces or ("",)
    failovers = [manager.informer(REDIS_FAILOVERS, namespace=ns, optional=True) for ns in scopes]
    redises = [manager.informer(REDISES, namespace=ns) for ns in scopes]
    consistency = Consistency()
    for informer in (*failovers, *redises):
        resource = informer.kind.resource
        consistency.add_cache(resource, informer, namespace=informer.namespace)
    reconciler = RedisFailovers(
        client=manager.client,
        applier=Applier(manager.client, annotation=INTENT_ANNOTATION, consistency=consistency),
        recorder=manager.recorder,
        failovers=failovers,
        redises=redises,
        clock=clock,
    )

    def same_name(change: Change[Any]) -> Iterable[Key]:
        return [
            key
            for key in itself(change)
            if any(informer.cache.get(key) is not None for informer in failovers)
        ]

    controller = Controller(
        "redisfailover",
        reconciler.reconcile,
        [
            *(Watch(informer, itself, by_others) for informer in failovers),
            *(Watch(informer, same_name) for informer in redises),
        ],
        workers=2,
        deadline=60.0,
        gate=consistency.limitation,
    )
    consistency.on_ready = lambda key: controller.enqueue(key, reason="the caches caught up")
    manager.add(controller)
    return controller


def _observer(
    client: Client,
    settings: Settings,
    world: World,
    links: Links,
    *,
    looks: LastLooks,
    clock: Callable[[], float],
) -> Observer:
    return Observer(
        world,
        links,
        absences=Absences(client, clock),
        resizing=Resizing(client),
        looks=looks,
        timeout=settings.probe_timeout,
        clock=clock,
    )


def _reporter(manager: Manager, applier: Applier) -> Reporter:
    registry = manager.metrics.registry
    return Reporter(
        manager.client,
        applier,
        manager.recorder,
        plans=actions_counter(registry),
        losses=losses_counter(registry),
    )


def _watches(world: World) -> Iterator[Watch]:
    for informer in world.redises:
        yield Watch(informer, itself, by_others)
    for owned in (world.pods, world.claims, *world.children.values()):
        for informer in owned:
            yield Watch(informer, _database)


by_others: Predicate[Any] = any_of(
    generation_changed, labels_changed, annotations_changed, lifetime_changed, not_(version_changed)
)
"""What we write ourselves, the status, is no news: each report would bring about the next."""


def _owner_of(world: World, uid: str) -> Key | None:
    for informer in world.pods:
        for pod in informer.cache:
            if pod.metadata.uid == uid:
                return (pod.metadata.namespace, pod.metadata.label(DATABASE_LABEL))
    return None


def _database(change: Change[Any]) -> Iterable[Key]:
    """Return the database that an object belongs to, by its label, before and after the change."""
    match change:
        case Added(obj, _) | Deleted(obj):
            states: tuple[Any, ...] = (obj,)
        case Updated(old, new):
            states = (old, new)
    found: dict[Key, None] = {}
    for state in states:
        name = state.metadata.label(DATABASE_LABEL)
        if name:
            found[state.metadata.namespace, name] = None
    return found
