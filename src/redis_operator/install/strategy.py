"""All objects of one version as a value that another version can read, apply and compare. Pure.

Only a version itself knows its objects. It writes them, in the order in which they are applied,
into a ConfigMap: compressed, with a digest. An installer of any version needs nothing else.
"""

from __future__ import annotations

import base64
import gzip
import zlib
from collections.abc import Mapping
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import Struct

from redis_operator import __version__

from .inventory import Item, item_of
from .objects import COMPONENT_LABEL, INSTALLATION_LABEL, OPTIONAL_KINDS, Object, stages
from .options import Options

__all__ = [
    "STRATEGY_LABEL",
    "Listed",
    "StageObjects",
    "Strategy",
    "generate",
    "name_of",
    "read",
    "written",
]

STRATEGY_LABEL: Final = "redisoperator.dev/strategy"
"""On every ConfigMap that stores a strategy, and on the Job that writes it."""
_FORMAT: Final = "1"
_FILE: Final = "objects.json.gz"
_KEPT: Final = 4  # it is read in every pass, and few versions are kept


class Listed(Struct, frozen=True):
    """One object, and how it is addressed: this version may not know its kind."""

    item: Item
    document: Object
    optional: bool = False  # whether it is skipped in a cluster without the kind

    @property
    def component(self) -> str:
        """Its component of the installation."""
        labels = self.document["metadata"].get("labels") or {}
        return str(labels.get(COMPONENT_LABEL, ""))


class StageObjects(Struct, frozen=True):
    """Objects that are applied together, before the next stage; later versions may have other
    stages."""

    stage: str
    objects: tuple[Listed, ...]


class Strategy(Struct, frozen=True, dict=True):
    """The objects of one version, with the options of one installation."""

    version: str
    options: Options
    parts: tuple[StageObjects, ...]

    @cached_property
    def digest(self) -> str:
        """Its digest."""
        return sha256(_encoded(self)).hexdigest()

    @property
    def objects(self) -> list[Listed]:
        """Every object, in order."""
        return [listed for part in self.parts for listed in part.objects]


def generate(options: Options) -> Strategy:
    """Return the strategy of this version."""
    parts = [
        StageObjects(stage.value, tuple(map(_listed, made)))
        for stage, made in stages(options).items()
    ]
    return Strategy(__version__, options, tuple(parts))


def _listed(document: Object) -> Listed:
    return Listed(item_of(document), document, document["kind"] in OPTIONAL_KINDS)


def name_of(options: Options) -> str:
    """Return the name of the ConfigMap, and of the Job that writes it, for some choices.

    The image is one of them: another version has another name.
    """
    chosen = msgspec.json.encode(options, order="deterministic")
    return f"redis-operator-strategy-{sha256(chosen).hexdigest()[:12]}"


def written(strategy: Strategy) -> Object:
    """Return the ConfigMap that stores it."""
    packed = gzip.compress(_encoded(strategy), mtime=0)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "namespace": strategy.options.namespace,
            "name": name_of(strategy.options),
            "labels": {
                STRATEGY_LABEL: "objects",
                INSTALLATION_LABEL: strategy.options.namespace,
            },
        },
        "data": {"format": _FORMAT, "version": strategy.version, "sha256": strategy.digest},
        "binaryData": {_FILE: base64.b64encode(packed).decode()},
    }


def read(raw: Mapping[str, Any]) -> Strategy | str:
    """Return the strategy in a ConfigMap, or why it cannot be used."""
    data = raw.get("data") or {}
    if data.get("format") != _FORMAT:
        return f"is of format {data.get('format')!r}, and this installer knows {_FORMAT}"
    return _unpacked((raw.get("binaryData") or {}).get(_FILE, ""), data.get("sha256"))


@lru_cache(maxsize=_KEPT)
def _unpacked(packed: str, digest: str | None) -> Strategy | str:
    try:
        text = gzip.decompress(base64.b64decode(packed, validate=True))
        if sha256(text).hexdigest() != digest:
            return "was changed: its digest is not that of its objects"
        return msgspec.json.decode(text, type=Strategy)
    except (ValueError, OSError, EOFError, zlib.error, msgspec.MsgspecError) as error:
        return f"cannot be read: {error}"


def _encoded(strategy: Strategy) -> bytes:
    return msgspec.json.encode(strategy)
