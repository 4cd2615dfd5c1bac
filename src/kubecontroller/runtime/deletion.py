"""Deletion of objects that must not be deleted by mistake.

A cache may be minutes old: restarted operators that listed from a lagging API server are known to
have deleted data. So the object is read live (by quorum) first, the reason to delete it is checked
on that object, and the delete carries its uid and its version.
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

__all__ = ["delete_after_live_read"]

T = TypeVar("T")


async def delete_after_live_read(
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
    """Delete the object of that uid, if a live read confirms the reason; why not, or nothing.

    `limitation` is called with the live object. An object that is gone already, or has been
    replaced by another one, is a reason not to delete, not an error. The deletion is expected of
    `owner` before it is sent.

    Errors: those of the API; the expectation is withdrawn only when it was certainly not done.
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
        return "it is gone already" if gone else "it changed in the meantime"
    except (ServerError, NoAnswer, ConnectionBroken):
        raise  # it may have been executed: expected until the object is seen, or too long
    except KubeError as error:
        if not getattr(error, "carried_out", False):
            _take_back(expectations, owner, uid)  # it was refused, or never sent
        raise
    return None


def _take_back(expectations: Expectations[Key] | None, owner: Key | None, uid: str) -> None:
    if expectations is not None and owner is not None:
        expectations.deletion_failed(owner, uid)
