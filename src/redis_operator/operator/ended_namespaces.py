"""Starts an operator of some namespaces although one of them is being deleted, or is gone.

Its rights there are gone too, so that no cache of that namespace can be filled. Databases of the
other namespaces must not wait for that. Where a namespace exists, a missing right still keeps an
operator from starting: an upgrade that lacks one must not replace a process that works.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

from kubecontroller import Client, Informer, Key, KubeError, Manager, fields
from redis_operator.operator.releases import is_terminating

__all__ = ["spare_ended"]

_LOG = logging.getLogger(__name__)
_ASK_SECONDS = 10.0


async def spare_ended(manager: Manager, namespaces: Iterable[str]) -> None:
    """Do not wait for caches of namespaces that end or are gone, before a manager runs.

    Nothing in such a namespace is reconciled before all its caches are filled: it may be created
    again, and get rights again, in any order.
    """
    ended = {name for name in namespaces if await _has_ended(manager.unfenced_client, name)}
    if not ended:
        return
    _LOG.warning("listed namespaces end or are gone", extra=fields(namespaces=sorted(ended)))
    spared = [i for i in manager.informers.values() if i.namespace in ended and not i.optional]
    for informer in spared:
        informer.optional = True
    for controller in manager.controllers:
        if any(watch.informer.namespace in ended for watch in controller.watches):
            controller.add_gate(partial(_unfilled, spared))


async def _has_ended(client: Client, namespace: str) -> bool:
    """Whether a namespace ends or is gone; not if that is not known."""
    try:
        return await is_terminating(client, namespace, timeout=_ASK_SECONDS)
    except KubeError:
        return False


def _unfilled(spared: list[Informer[object]], key: Key) -> str | None:
    """Return which cache of a key's namespace is not filled yet."""
    for informer in spared:
        if informer.namespace == key[0] and not informer.has_synced:
            return f"{informer.kind.resource} of namespace {key[0]} may not be listed"
    return None
