"""YAML as Kubernetes reads it. Imported only for clients that send it."""

from __future__ import annotations

from typing import Any

import yaml

from kubelocal.apiserver.errors import bad_request

__all__ = ["load"]

_DEPTH = 1000


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: a date is a text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith("timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load(body: bytes) -> Any:
    """Decode a YAML text; refuse invalid and huge ones."""
    try:
        text = body.decode("utf-8")
        if b"*" in body and any(isinstance(e, yaml.AliasEvent) for e in yaml.parse(text)):
            # an alias makes a small text a huge object, and clients do not send them
            raise bad_request("error decoding YAML: aliases are not allowed in a request body")
        value = yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise bad_request(f"error decoding YAML: {error}") from error
    return _json_keys(value)


def _json_keys(value: Any, depth: int = 0) -> Any:
    if depth > _DEPTH:
        raise bad_request("error decoding YAML: exceeded max depth")
    if isinstance(value, dict):
        return {_key(key): _json_keys(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_json_keys(item, depth + 1) for item in value]
    return value


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return key if isinstance(key, str) else str(key)
