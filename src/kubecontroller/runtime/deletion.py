"""Deleting what must not be deleted by mistake.

A cache may be minutes old: a restarted operator that listed from a lagging API server has deleted
data elsewhere. So the object is read live (by quorum) first, the reason to delete it is checked on
what was read, and the delete carries the uid and the version it was decided on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kubecontroller.client.api import Client, Propagation
from kubecontroller.client.errors import (
    Conflict,
    ConnectionBroken,
    KubeError,
    NoAnswer,
    NotFound,
    ServerError,
)
from kubecontroller.client.meta import Key, meta_of
from kubecontroller.client.scheme import Kind
from kubecontroller.runtime.expectations import Expectations

__all__ = ["delete_after_live_look"]

T = TypeVar("T")


async def delete_after_live_look(
    client: Client,
    kind: Kind[T],
    key: Key,
    *,
    uid: str,
    limitation: Callable[[T], str | None],
    owner: Key | None = None,
    expectations: Expectations[Key] | None = None,
    propagation: Propagation | None = None,
) -> str | None:
    """Delete the object of that uid, if a live read still gives reason to; why not, or nothing.

    `limitation` is asked about the live object. Gone already, or another one by now: that is a
    reason not to, and no error. The deletion is expected of `owner` before it is sent.

    Errors: those of the API; the expectation is taken back only when it surely was not done.
    """
    try:
        live = await client.get(kind, key)
    except NotFound:
        return "it is gone already"
    meta = meta_of(live)  # type: ignore[arg-type]  # an object of the API
    if meta.uid != uid:
        return "it is another object of the same name now"
    reason = limitation(live)
    if reason is not None:
        return reason
    if expectations is not None and owner is not None:
        expectations.expect_deletions(owner, [uid])
    try:
        await client.delete(
            kind,
            key,
            uid=uid,
            resource_version=meta.resource_version,
            propagation=propagation,
        )
    except (NotFound, Conflict) as error:
        _take_back(expectations, owner, uid)
        gone = isinstance(error, NotFound)
        return "it is gone already" if gone else "it changed while we looked"
    except (ServerError, NoAnswer, ConnectionBroken):
        raise  # it may have been carried out: it is expected until the object is seen, or too long
    except KubeError:
        _take_back(expectations, owner, uid)  # it was refused, or never sent
        raise
    return None


def _take_back(expectations: Expectations[Key] | None, owner: Key | None, uid: str) -> None:
    if expectations is not None and owner is not None:
        expectations.deletion_failed(owner, uid)
