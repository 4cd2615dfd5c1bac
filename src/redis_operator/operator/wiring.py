"""Puts one operator process together: caches, links, the reconciler and its triggers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from kubecontroller import (
    Applier,
    Caches,
    Client,
    Controller,
    ControllerBuilder,
    HealthServer,
    HttpTransport,
    Key,
    LeaseSettings,
    Manager,
    Metrics,
    by_label,
    load,
    mapped,
)
from kubecontroller.runtime import (
    URGENT_PRIORITY,
    Change,
    SecuredMetrics,
    any_of,
    default_identity,
    itself,
    spec_or_metadata_changed,
)
from redis_operator.manifests.names import DATABASE_LABEL, INTENT_ANNOTATION, MANAGER
from redis_operator.operator.act import Actor
from redis_operator.operator.admission.webhooks import add_admission
from redis_operator.operator.background import Background
from redis_operator.operator.backups.precautions import Precautions
from redis_operator.operator.backups.wiring import (
    add_backups,
    add_redis_restores,
    add_restores,
    add_schedules,
)
from redis_operator.operator.backups.workers import ask_archiver, ask_progress
from redis_operator.operator.contexts import Contexts
from redis_operator.operator.errors import Refused
from redis_operator.operator.memory import Memories
from redis_operator.operator.metrics.databases import (
    DatabaseCollector,
    actions_counter,
    losses_counter,
)
from redis_operator.operator.metrics.servers import LastLooks, ServerCollector
from redis_operator.operator.objects.absent import Absences
from redis_operator.operator.objects.children import Children
from redis_operator.operator.objects.ending import Ending
from redis_operator.operator.objects.resizing import Resizing
from redis_operator.operator.observe import Observer
from redis_operator.operator.passes import PassReader
from redis_operator.operator.password_store import PasswordStore
from redis_operator.operator.reconcile import Reconciler
from redis_operator.operator.redis_failovers import RedisFailovers
from redis_operator.operator.releases import add_releases
from redis_operator.operator.report import Reporter
from redis_operator.operator.rotation import Rotations
from redis_operator.operator.servers.links import Links
from redis_operator.operator.servers.logins import Logins
from redis_operator.operator.servers.movers import SlotMovers
from redis_operator.operator.servers.sources import Sources
from redis_operator.operator.settings import Settings
from redis_operator.operator.settle import Settler
from redis_operator.operator.statuses import Statuses
from redis_operator.operator.world import (
    REDIS_FAILOVERS,
    REDISES,
    World,
    backed_up_by,
    hold_changed,
)
from redis_operator.planning.actions import Action

__all__ = ["add_all", "add_databases", "add_failovers", "make_manager"]

_LEASE: Final = "redis-operator"
_STUCK_SECONDS: Final = 60.0
_URGENT_WORKERS: Final = 4
"""Workers for databases that lost a server, while all others wait for an API that hangs."""


def make_manager(settings: Settings) -> Manager:
    """Return the whole operator, ready to run."""
    access = load(file=settings.kubeconfig, context=settings.context)
    client = Client(HttpTransport(access, user_agent=MANAGER), field_manager=MANAGER)
    metrics = Metrics()
    health = _health(settings, metrics, client) if settings.health_port else None
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
    add_all(manager, settings)
    return manager


def add_all(manager: Manager, settings: Settings) -> None:
    """Add every controller of the operator to a manager, and admission if it is asked for."""
    world = World(manager, settings.namespaces)
    add_databases(manager, settings, world=world)
    add_failovers(manager, settings)
    add_backups(manager, settings, world, ask=ask_progress)
    add_restores(manager, settings, world)
    add_redis_restores(manager, settings, world)
    add_schedules(manager, settings, world, ask=ask_archiver)
    if settings.namespaces:
        add_releases(manager)
    if settings.webhook_port:
        add_admission(manager, settings, world)


def _health(settings: Settings, metrics: Metrics, client: Client) -> HealthServer:
    """Return the server of health and metrics, protected if the settings ask for it."""
    port = settings.secured_metrics_port
    secured = None if port is None else SecuredMetrics(client, port=port)
    return HealthServer(
        metrics, host=settings.health_host, port=settings.health_port, secured=secured
    )


def add_databases(
    manager: Manager,
    settings: Settings,
    *,
    world: World | None = None,
    clock: Callable[[], float] = time.time,
) -> Controller:
    """Add the controller of databases to a manager; `clock` returns seconds since the epoch."""
    world = world or World(manager, settings.namespaces)
    builder = ControllerBuilder(manager, "redis", world.redises)
    owned: tuple[Caches[Any], ...] = (world.pods, world.claims, *world.children.values())
    for objects in owned:
        builder.watches(objects, by_label(DATABASE_LABEL))
    # a database with backups has a user for them
    noticed = any_of(spec_or_metadata_changed, hold_changed)
    builder.watches(world.backups, mapped(backed_up_by), when=noticed)
    builder.watches(world.schedules, mapped(backed_up_by), when=spec_or_metadata_changed)
    # and a database whose data is to be replaced accepts no client
    builder.watches(world.restores, mapped(backed_up_by))
    wakes = _Wakes(world)
    looks = LastLooks()
    reconciler = _reconciler(manager, settings, builder, world, wakes, looks=looks, clock=clock)
    wakes.controller = builder.add(
        reconciler.reconcile,
        workers=settings.workers,
        urgent_workers=_URGENT_WORKERS,
        deadline=120.0,
    )
    manager.metrics.registry.register(DatabaseCollector(world.all_redises))
    manager.metrics.registry.register(ServerCollector(looks))
    return wakes.controller


def add_failovers(
    manager: Manager, settings: Settings, *, clock: Callable[[], float] = time.time
) -> Controller:
    """Add the controller of `RedisFailover`s to a manager: each owns a database with its name.

    If the kind is not installed, or listing it is forbidden, databases are reconciled all the same.
    """
    failovers = manager.caches(REDIS_FAILOVERS, namespaces=settings.namespaces, optional=True)
    redises = manager.caches(REDISES, namespaces=settings.namespaces)

    def same_name(change: Change[Any]) -> Iterable[Key]:
        return [key for key in itself(change) if failovers.get(key) is not None]

    builder = ControllerBuilder(manager, "redisfailover", failovers)
    builder.watches(redises, same_name)
    reconciler = RedisFailovers(
        client=manager.client,
        applier=builder.applier(annotation=INTENT_ANNOTATION),
        recorder=manager.recorder,
        failovers=failovers,
        redises=redises,
        clock=clock,
    )
    return builder.add(reconciler.reconcile, workers=2, deadline=60.0)


class _Wakes:
    """Triggers of a reconcile in addition to changes of objects."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.controller: Controller | None = None

    def lost(self, uid: str) -> None:
        """A server ended its connection: its database comes before all others."""
        key = _owner_of(self._world, uid)
        if key is not None:
            self._enqueue(key, "a server ended its connection", URGENT_PRIORITY)

    def migrated(self, key: Key) -> None:
        """A job that moves slots ended."""
        self._enqueue(key, "a slot migration ended")

    def answered(self, key: Key) -> None:
        """A write that continued beside the passes has ended."""
        self._enqueue(key, "a write was answered late")

    def _enqueue(self, key: Key, reason: str, priority: int = 0) -> None:
        if self.controller is not None:
            self.controller.enqueue(key, reason=reason, priority=priority)


def _reconciler(
    manager: Manager,
    settings: Settings,
    builder: ControllerBuilder,
    world: World,
    wakes: _Wakes,
    *,
    looks: LastLooks,
    clock: Callable[[], float],
) -> Reconciler:
    """Return the reconciler of databases, with everything that it reads and writes by."""

    def leads() -> bool:
        return manager.election is None or manager.election.is_leader()

    def before(action: Action) -> None:
        if not leads():
            raise Refused(f"{type(action).__name__} is not done: this operator no longer leads")

    client, behind = manager.client, builder.consistency.limitation
    applier = builder.applier(annotation=INTENT_ANNOTATION)
    links = Links(on_lost=wakes.lost)
    movers = SlotMovers(on_end=wakes.migrated, may_act=leads)
    children = Children(
        client,
        world,
        applier,
        namespace=settings.namespace,
        labels=dict(settings.pod_labels),
        binding_addresses=settings.binding_addresses,
    )
    passwords = PasswordStore(client, world, clock=clock)
    logins = Logins(links, may_act=leads)
    rotations = Rotations(
        children, passwords, logins, refresh_seconds=settings.secret_refresh, clock=clock
    )
    observer = _observer(client, settings, world, links, looks=looks, clock=clock)
    reporter = _reporter(manager, applier)
    precautions = Precautions(client, world)
    background = Background(on_end=wakes.answered)
    contexts = Contexts(children, rotations, movers, precautions, clock, behind)
    return Reconciler(
        world=world,
        reader=PassReader(
            world,
            observer,
            children,
            passwords,
            Memories(clock),
            movers,
            Sources(client, links, clock=clock),
            background,
            precautions,
            behind=behind,
        ),
        actor=Actor(client, world, links, observer, movers, reporter, before),
        settler=Settler(client, children, observer, rotations, movers, background),
        statuses=Statuses(contexts, reporter, background),
        reporter=reporter,
        ending=Ending(client, precautions.is_backed_up),
        precautions=precautions,
        interval=settings.probe_interval,
        clock=clock,
    )


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


def _owner_of(world: World, uid: str) -> Key | None:
    for pod in world.pods:
        if pod.metadata.uid == uid:
            return (pod.metadata.namespace, pod.metadata.label(DATABASE_LABEL))
    return None
