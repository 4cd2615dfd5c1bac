"""A controller as tests want it: its waits are whole seconds."""

from __future__ import annotations

from typing import Any

from kubecontroller.client.meta import Key
from kubecontroller.runtime.backoff import ItemExponential
from kubecontroller.runtime.controller import Controller, Reconcile, Watch
from kubecontroller.runtime.informer import Informer

__all__ = ["controller", "key"]


def key(name: str) -> Key:
    return ("default", name)


def controller(informer: Informer[Any], reconcile: Reconcile, **options: Any) -> Controller:
    options.setdefault("limiter", ItemExponential(base=1))
    return Controller("test", reconcile, [Watch(informer)], **options)
