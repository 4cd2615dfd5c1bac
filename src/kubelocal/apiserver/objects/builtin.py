"""The built-in kinds: their schemas, their defaults, and what is wrong with an object of them.

`default` is what Go does when it reads a request; it comes before field ownership is recorded.
`prepare` is what the server itself adds afterwards when an object is created, which nobody
manages. `problems` is what Go checks beyond the schema. Pure; called by the write path.
"""

from __future__ import annotations

from typing import Any

from kubelocal.apiserver.kinds.filling import fill
from kubelocal.apiserver.kinds.schemas import published, schema_of
from kubelocal.apiserver.objects.prepare import prepare
from kubelocal.apiserver.objects.validation.kinds import problems

__all__ = ["default", "prepare", "problems", "published", "schema_of"]

_VERSION = "v1"


def default(group: str, kind: str, document: dict[str, Any]) -> None:
    """Fill in, in place, what Go code gives a default for; unserved kinds are left alone."""
    try:
        schema = schema_of(group, _VERSION, kind)
    except KeyError:
        return
    fill(schema, document)
