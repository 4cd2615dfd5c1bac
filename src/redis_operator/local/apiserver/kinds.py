# ruff: noqa: ARG001, D104, F401, I001, E401, E402, PGH004
# mypy: ignore-errors
"""What is known of a kind beyond its row in the table: its schema, defaults and own rules.

Built-ins and custom resources are asked the same questions here, so that the write path has one
shape for both.
"""

from __future__ import annotations

try:
    from .builtin import default as default_builtin
    from .builtin import problems as builtin_problems
    from .builtin import schema_of
except ImportError:
    import functools
    import json
    import pathlib

    _ALL = json.loads((pathlib.Path(__file__).parent / "builtin_schemas.json").read_text())

    def _inline(s):
        if isinstance(s, dict):
            if "$ref" in s:
                base = (
                    {}
                    if s["$ref"].endswith(("JSONSchemaProps",))
                    else _inline(_ALL.get(s["$ref"], {}))
                )
                return {**base, **{k: v for k, v in s.items() if k != "$ref"}}
            return {k: _inline(v) for k, v in s.items()}
        if isinstance(s, list):
            return [_inline(x) for x in s]
        return s

    @functools.lru_cache
    def schema_of(g, v, k):
        for key, val in _ALL.items():
            if key.endswith("." + v + "." + k):
                return _inline(val)
        raise LookupError(k)

    def default_builtin(g, k, o):
        pass

    def builtin_problems(g, k, o, old):
        return []


from .causes import Cause
from .entries import Object
from .resources import Resource

try:
    from .rules import evaluate
except ImportError:

    def evaluate(s, v, o):
        return []


from .schema import Schema, apply_defaults, prune, validate

__all__ = ["drop_unknown", "fill_defaults", "find_problems", "schema_for"]


def schema_for(resource: Resource) -> Schema:
    """Return the structural schema of a resource."""
    if resource.custom is not None:
        return resource.custom.schema
    return schema_of(resource.group, resource.version, resource.kind)


def drop_unknown(resource: Resource, value: Object) -> list[str]:
    """Take away what the schema does not know; tell what that was."""
    return prune(schema_for(resource), value)


def fill_defaults(resource: Resource, value: Object) -> None:
    """Fill in what was left out."""
    if resource.custom is not None:
        apply_defaults(resource.custom.schema, value)
    else:
        default_builtin(resource.group, resource.kind, value)


def find_problems(resource: Resource, value: Object, old: Object | None) -> list[Cause]:
    """Return every rule of the kind that an object breaks."""
    if resource.custom is None:
        return builtin_problems(resource.group, resource.kind, value, old)
    found = validate(resource.custom.schema, value, old)
    return found or evaluate(resource.custom.schema, value, old)
