"""One pass over the `RedisOperator`: options, objects of that version, apply, report.

Guarantees: it may be interrupted at any write; the next pass continues. Nothing of the running
version is changed before all objects of the desired one are known. Databases are not changed at
all.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Struct

from kubecontroller import (
    Again,
    AlreadyExists,
    ApiError,
    Applier,
    BadRequest,
    Client,
    Conflict,
    Done,
    Finalizer,
    Forbidden,
    Invalid,
    Key,
    Kind,
    KubeError,
    Manifest,
    NotFound,
    Outcome,
    Propagation,
    Retry,
    meta_of,
)
from kubecontroller.client.objects import CONFIG_MAPS, DEPLOYMENTS, JOBS, PODS, Job
from redis_operator.api.redisoperator import (
    ComponentStatus,
    InstallationPhase,
    RedisOperator,
    RedisOperatorStatus,
    UpdateApproval,
)
from redis_operator.install.installer import Installer, InstallError, Memory, kind_of
from redis_operator.install.inventory import Inventory, Item
from redis_operator.install.objects import Component
from redis_operator.install.options import DEFAULT_NAMESPACE, Options
from redis_operator.install.remover import Remover
from redis_operator.install.rights import OPERATOR
from redis_operator.install.strategy import STRATEGY_LABEL, Strategy, name_of, read
from redis_operator.install.waiting import NotInForce, StageTimeout, pod_limitation

from .choices import Named, load_redisoperator, load_status, options_of
from .job import strategy_job
from .status import (
    Standing,
    SurveyedObject,
    component_statuses,
    installation_status,
    under_way_for,
)

__all__ = ["APPROVAL_ANNOTATION", "FINALIZER", "REDIS_OPERATORS", "Installations"]

REDIS_OPERATORS: Final[Kind[Manifest]] = Kind(
    "redisoperator.dev", "v1", "RedisOperator", "redisoperators", False, dict
)
FINALIZER: Final = "redisoperator.dev/installation"
APPROVAL_ANNOTATION: Final = "redisoperator.dev/approve-update"
_LOG = logging.getLogger(__name__)
_SOON_SECONDS: Final = 2.0
_LATER_SECONDS: Final = 30.0  # a long change is checked less often
_OFTEN: Final = 10.0
_REST_SECONDS: Final = 60.0  # changes by hand are reverted after so long
_FAILED_SECONDS: Final = 60.0  # a Job that failed is retried after so long
_KEPT_STRATEGIES: Final = 3


class Installations(Struct, frozen=True):
    """The controller of the one `RedisOperator` there is."""

    client: Client
    applier: Applier
    namespace: str
    operator: Callable[[Key], Manifest | None]
    namespaces: Callable[[], Iterable[Named]]
    clock: Callable[[], float] = time.time
    applied: Memory = msgspec.field(default_factory=dict)

    async def reconcile(self, key: Key) -> Outcome:
        """Bring the installation as far as it can be brought now."""
        raw = self.operator(key)
        if raw is None:
            return Done()
        if meta_of(raw).name != DEFAULT_NAMESPACE:  # whoever edits the definition can have two
            text = f"metadata.name: a cluster has one RedisOperator, called {DEFAULT_NAMESPACE}"
            return await self._told(raw, Standing(refusal="InvalidSpec", message=text), None)
        try:
            finalizer = Finalizer(self.client, REDIS_OPERATORS, FINALIZER)
            passing = partial(self._pass, raw)
            return await finalizer.around(raw, follow=passing, clean_up=self._end)
        except (Forbidden, Invalid, BadRequest) as error:
            await self._told_refused(raw, error)
            return Retry(error)
        except KubeError as error:
            return Retry(error)

    async def _end(self, raw: Manifest) -> Outcome | None:
        """Remove the operator; databases keep serving without it."""
        if load_status(raw).phase is not InstallationPhase.DELETING:
            await self._told(raw, Standing(waits_for="the operator is removed", ends=True), None)
        remover = Remover(self.client, tell=_LOG.info, patience=StageTimeout(0.0))
        try:
            await remover.uninstall(self.namespace)
        except NotInForce as error:
            return await self._told(raw, Standing(waits_for=error.reason, ends=True), None)
        except InstallError as error:
            refusal = Standing(refusal="Refused", message=str(error), ends=True)
            return await self._told(raw, refusal, None)
        return None

    async def _pass(self, raw: Manifest) -> Outcome:
        wanted = load_redisoperator(raw)
        if not isinstance(wanted, RedisOperator):
            text = "; ".join(map(str, wanted))
            return await self._told(raw, Standing(refusal="InvalidSpec", message=text), None)
        options = options_of(wanted.spec, namespace=self.namespace, namespaces=self.namespaces())
        if not isinstance(options, Options):
            refusal = Standing(refusal="InvalidSpec", message=str(options))
            return await self._told(raw, refusal, None)
        strategy = await self._strategy(options)
        if isinstance(strategy, Standing):
            return await self._told(raw, strategy, None)
        installer = Installer(
            self.client, tell=_LOG.info, patience=StageTimeout(0.0), memory=self.applied
        )
        installed = await installer.find(self.namespace)
        held_back = _held_back(raw, wanted, strategy, installed)
        if held_back is not None:
            return await self._told(raw, held_back, strategy)
        if load_status(raw).target_configuration != strategy.digest:
            await self._told(raw, Standing(waits_for="objects are being applied"), strategy)
        try:
            await installer.sync(strategy)
        except NotInForce as error:
            waits = Standing(waits_for=error.reason)
            return await self._told(raw, waits, strategy, installer.left_out)
        except InstallError as error:
            return await self._told(raw, Standing(refusal="Refused", message=str(error)), strategy)
        await self._prune_strategies(name_of(options))
        standing = Standing(remark="; ".join(installer.misfits))
        return await self._told(raw, standing, strategy, installer.left_out)

    # The objects of a version

    async def _strategy(self, options: Options) -> Strategy | Standing:
        """Return the objects of the desired version; a Job of its own image lists them."""
        key = (options.namespace, name_of(options))
        try:
            found = read(await self.client.get(CONFIG_MAPS.plain(), key))
        except NotFound:
            return await self._asked(options, key)
        if isinstance(found, str):
            text = f"ConfigMap {key[1]} {found}; delete it, and it is written again"
            return Standing(refusal="StrategyUnusable", message=text)
        return found

    async def _asked(self, options: Options, key: Key) -> Standing:
        waits = Standing(waits_for=f"Job {key[1]} reads the objects of {options.image}")
        try:
            job = await self.client.get(JOBS, key)
        except NotFound:
            with suppress(AlreadyExists):  # by an earlier pass whose answer was lost
                await self.client.create(JOBS.plain(), strategy_job(options))
            return waits
        ended = {c.type: c for c in job.status.conditions or () if c.status == "True"}
        if "Complete" in ended:  # and its result was deleted
            await self._delete_job(job)
            return waits
        reason = await self._pod_limitation(key)
        if "Failed" in ended:
            failed = ended["Failed"]
            since = failed.last_transition_time
            if since is None or self.clock() - since.timestamp() >= _FAILED_SECONDS:
                await self._delete_job(job)
            detail = f"; {reason}" if reason else ""
            text = f"Job {key[1]} with image {options.image} failed: {failed.message}{detail}"
            return Standing(refusal="StrategyFailed", message=f"{text}; it is retried")
        return Standing(waits_for=f"{waits.waits_for}; {reason}") if reason else waits

    async def _delete_job(self, job: Job) -> None:
        await self.client.delete(
            JOBS, job.metadata.key, uid=job.metadata.uid, propagation=Propagation.BACKGROUND
        )

    async def _pod_limitation(self, key: Key) -> str:
        page = await self.client.list(PODS, namespace=key[0], labels=f"{STRATEGY_LABEL}=job")
        for pod in page.items:
            owners = pod.metadata.owner_references or ()
            if any(owner.name == key[1] for owner in owners) and (
                limitation := pod_limitation(pod)
            ):
                return limitation
        return ""

    async def _prune_strategies(self, current: str) -> None:
        """Keep the last few, so that a rollback needs no Job; others are deleted, and Jobs without
        one."""
        page = await self.client.list(
            CONFIG_MAPS.plain(), namespace=self.namespace, labels=f"{STRATEGY_LABEL}=objects"
        )
        dated = sorted(page.items, key=lambda raw: raw["metadata"]["creationTimestamp"])
        names = [raw["metadata"]["name"] for raw in dated]
        kept = {current, *[name for name in names if name != current][1 - _KEPT_STRATEGIES :]}
        for name in names:
            if name not in kept:
                with suppress(NotFound):
                    await self.client.delete(CONFIG_MAPS, (self.namespace, name))
        jobs = await self.client.list(
            JOBS, namespace=self.namespace, labels=f"{STRATEGY_LABEL}=job"
        )
        for job in jobs.items:
            if job.metadata.name not in kept:
                with suppress(NotFound, Conflict):
                    await self._delete_job(job)

    # Telling

    async def _surveys(
        self, target: Strategy | None, left_out: Collection[Item] = ()
    ) -> list[SurveyedObject]:
        """Return the state of every component but the controller, whose pods have more."""
        found = []
        for listed in target.objects if target is not None else ():
            if listed.component == Component.CONTROLLER:
                continue
            item = listed.item
            try:
                live = await self.client.get(kind_of(item), (item.namespace, item.name))
            except NotFound:
                live = None
            found.append(SurveyedObject(listed, live, unserved=live is None and item in left_out))
        return found

    async def _told(
        self,
        raw: Manifest,
        standing: Standing,
        target: Strategy | None,
        left_out: Collection[Item] = (),
    ) -> Outcome:
        """Write the status if it differs; return when to check again."""
        before = load_status(raw)
        installed, components = await self._known(before, target, left_out)
        now = datetime.fromtimestamp(self.clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        after = installation_status(
            before,
            standing,
            generation=meta_of(raw).generation,
            target=target,
            installed=installed,
            components=components,
            now=now,
        )
        try:
            await self.applier.apply_status(
                REDIS_OPERATORS, meta_of(raw).key, _plain(after), observed=_plain(before)
            )
        except (NotFound, ApiError) as error:
            _LOG.warning("the status cannot be written: %s", error)
        if not standing.waits_for:
            return Again(_REST_SECONDS)
        lasted = under_way_for(before, now).total_seconds()
        return Again(min(max(lasted / _OFTEN, _SOON_SECONDS), _LATER_SECONDS))

    async def _told_refused(self, raw: Manifest, error: ApiError) -> None:
        """Report what the API server refuses, and who can change that."""
        refusal = Standing(
            refusal=error.reason or "Refused", message=str(error), ends=meta_of(raw).is_deleting
        )
        try:
            await self._told(raw, refusal, None)
        except KubeError as other:
            _LOG.warning("the status cannot be written: %s", other)

    async def _known(
        self,
        before: RedisOperatorStatus,
        target: Strategy | None,
        left_out: Collection[Item],
    ) -> tuple[Inventory | None, Sequence[ComponentStatus]]:
        """Return what is installed and how it runs; the last value where it may not be read."""
        installed: Inventory | None = None
        components: Sequence[ComponentStatus] = before.components
        installer = Installer(self.client, tell=_LOG.info, patience=StageTimeout(0.0))
        with suppress(Forbidden):
            installed = await installer.find(self.namespace)
        with suppress(Forbidden):
            try:
                deployment = await self.client.get(DEPLOYMENTS, (self.namespace, OPERATOR))
            except NotFound:
                deployment = None
            surveys = await self._surveys(target, left_out)
            components = component_statuses(surveys, deployment, target, before.components)
        return installed, components


def _held_back(
    raw: Manifest, wanted: RedisOperator, strategy: Strategy, installed: Inventory | None
) -> Standing | None:
    """Return why a version is not installed though its objects are known."""
    expected = wanted.spec.version
    if expected and expected != strategy.version:
        text = f"spec.version is {expected}, and {wanted.spec.image} is {strategy.version}"
        return Standing(refusal="OtherVersion", message=text)
    # where the record was deleted, the status still says what runs
    version = installed.version if installed is not None else load_status(raw).observed_version
    if wanted.spec.update_approval is UpdateApproval.AUTOMATIC or not version:
        return None
    approved = (raw["metadata"].get("annotations") or {}).get(APPROVAL_ANNOTATION)
    if strategy.version in (version, approved):
        return None
    text = (
        f"version {strategy.version} waits for approval: annotate the RedisOperator with "
        f"{APPROVAL_ANNOTATION}={strategy.version}"
    )
    return Standing(refusal="NotApproved", message=text)


def _plain(status: RedisOperatorStatus) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(status)
    return plain
