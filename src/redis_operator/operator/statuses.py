"""The statuses of databases: computed from a pass and written to the API."""

from __future__ import annotations

import logging
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from kubecontroller import KubeError, Manifest, fields
from redis_operator.api.status import Phase, RedisStatus
from redis_operator.api.validation import load_status
from redis_operator.operator.background import Background, Pending
from redis_operator.operator.contexts import Contexts
from redis_operator.operator.execute import StepOutcome
from redis_operator.operator.passes import NotFollowed, Pass
from redis_operator.operator.report import Reporter
from redis_operator.planning.advice import Plan
from redis_operator.planning.observed import Observed
from redis_operator.planning.reporting.losses import is_recorded
from redis_operator.planning.reporting.status import refused, status

__all__ = ["Statuses"]

_LOG = logging.getLogger(__name__)


class Statuses(Struct, frozen=True):
    """Everything that a status is computed from and written with."""

    contexts: Contexts
    reporter: Reporter
    background: Background

    def of(
        self,
        one: Pass,
        observed: Observed,
        plan: Plan,
        outcomes: tuple[StepOutcome, ...] = (),
        *,
        unseen: bool,
    ) -> RedisStatus:
        """Return the status after the steps of a plan; `unseen`: objects were written since."""
        failures = [outcome.error for outcome in outcomes if not outcome.done]
        image = one.facts.image if plan.settled else ""
        context = self.contexts.of(one, failures, image=image, unseen=unseen)
        return status(one.wanted, observed, plan, context)

    async def announce(self, one: Pass, observed: Observed, plan: Plan) -> Pass:
        """Report the next steps, unless they are reported already: failures would come and go."""
        if not plan.is_announced and is_recorded(plan, one.reported):
            return one
        before = status(one.wanted, observed, plan, self.contexts.of(one))
        if before.plan == one.reported.plan:
            return one
        try:
            return replace(one, reported=await self.write(one, before))
        except KubeError as error:
            _LOG.warning("the plan is not in the status", extra=fields(error=error))
            return one  # the steps are taken all the same, unless they make a loss final

    async def write(self, one: Pass, after: RedisStatus) -> RedisStatus:
        """Write a status; return the status in the API after that, as far as it is known."""
        write = partial(self.reporter.report, one.raw, one.reported, after)
        if one.reported.binding is None:
            return await write()
        found = await self.background.run(one.key, "its status", write)
        return one.reported if isinstance(found, Pending) else found

    async def write_deleting(self, raw: Manifest) -> None:
        """Report that a database is being deleted."""
        before = load_status(raw)
        await self.reporter.report(raw, before, replace(before, phase=Phase.DELETING, plan=()))

    async def write_refused(self, raw: Manifest, why: NotFollowed) -> None:
        """Report why no spec of a database can be used."""
        before = load_status(raw)
        context = self.contexts.unread(before, raw["metadata"].get("generation", 0))
        after = refused(context, why.reason, list(why.messages))
        await self.reporter.report(raw, before, after)
