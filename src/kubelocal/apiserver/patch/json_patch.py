"""The three ways to change a document by a patch: JSON patch, merge patch, strategic merge.

Each function returns a new document and does not change its arguments. `PatchError` says what is
wrong with the patch and has the status of the response. Pure; called by the write path.
"""

from __future__ import annotations

import copy
import json
from typing import Any

from kubelocal.apiserver.patch.strategic import PatchError, strategic_merge

__all__ = ["PatchError", "json_patch", "merge_patch", "strategic_merge"]

_MAX_OPERATIONS = 10_000
_GONE: Any = object()


def merge_patch(document: Any, patch: Any) -> Any:
    """Merge a patch (RFC 7386): objects merge, null removes, all else replaces."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), value)
    return result


def json_patch(document: Any, operations: Any) -> Any:
    """Apply the operations of a JSON patch (RFC 6902) in order, all of them or none."""
    if not isinstance(operations, list):
        text = "error decoding patch: a JSON patch must be a list of operations"
        raise PatchError(text, status=400, reason="BadRequest")
    if len(operations) > _MAX_OPERATIONS:
        text = (
            f"The allowed maximum operations in a JSON patch is {_MAX_OPERATIONS}, "
            f"got {len(operations)}"
        )
        raise PatchError(text, status=413, reason="RequestEntityTooLarge")
    result = copy.deepcopy(document)
    for operation in operations:
        if not isinstance(operation, dict):
            text = "error decoding patch: an operation must be an object"
            raise PatchError(text, status=400, reason="BadRequest")
        result = _operate(result, operation)
    return result


def _operate(document: Any, operation: dict[str, Any]) -> Any:
    kind, path = operation.get("op"), operation.get("path")
    if not isinstance(path, str):
        raise _unprocessable(f"{kind} operation missing path field: missing value")
    match kind:
        case "add":
            return _add(document, path, copy.deepcopy(operation.get("value")))
        case "remove":
            return _remove(document, path)
        case "replace":
            return _replace(document, path, copy.deepcopy(operation.get("value")))
        case "test":
            return _test(document, path, operation)
        case "copy":
            found = _find(document, _from(operation), kind)
            return _add(document, path, copy.deepcopy(found))
        case "move":
            source = _from(operation)
            if path != source and path.startswith(f"{source}/"):
                raise _unprocessable(f"move operation cannot move {source} into itself")
            found = _find(document, source, kind)
            return _add(_remove(document, source), path, found)
    raise _unprocessable(f"Unexpected kind: {'unknown' if kind is None else kind}")


def _unprocessable(text: str) -> PatchError:
    text = f"the server rejected our request due to an error in our request: {text}"
    return PatchError(text, status=422, reason="Invalid")


def _from(operation: dict[str, Any]) -> str:
    source = operation.get("from")
    if not isinstance(source, str):
        raise _unprocessable(f"{operation['op']} operation missing from field: missing value")
    return source


def _tokens(path: str, kind: str) -> list[str]:
    if not path:
        return []
    if not path.startswith("/"):
        raise _unprocessable(f"{kind} operation does not apply: doc is missing path: {path}")
    parts = path[1:].split("/")
    return [part.replace("~1", "/").replace("~0", "~") for part in parts]


def _missing(kind: str, path: str) -> PatchError:
    text = f'{kind} operation does not apply: doc is missing path: "{path}": missing value'
    return _unprocessable(text)


def _index(container: list[Any], token: str, *, end: int) -> int | None:
    """Parse a list index; negative ones count from the end, as the server's library allows."""
    if not token.removeprefix("-").isdecimal():
        return None
    index = int(token)
    if index < 0:
        index += len(container)
    return index if 0 <= index < end else None


def _step(container: Any, token: str) -> Any:
    if isinstance(container, dict):
        return container.get(token, _GONE)
    if isinstance(container, list):
        index = _index(container, token, end=len(container))
        return _GONE if index is None else container[index]
    return _GONE


def _find(document: Any, path: str, kind: str) -> Any:
    found = document
    for token in _tokens(path, kind):
        found = _step(found, token)
        if found is _GONE:
            raise _missing(kind, path)
    return found


def _parent(document: Any, path: str, kind: str) -> tuple[Any, str]:
    tokens = _tokens(path, kind)
    found = document
    for token in tokens[:-1]:
        found = _step(found, token)
        if not isinstance(found, dict | list):
            raise _missing(kind, path)
    return found, tokens[-1]


def _add(document: Any, path: str, value: Any) -> Any:
    if not path:
        return value
    container, token = _parent(document, path, "add")
    if isinstance(container, dict):
        container[token] = value
    elif token == "-":  # noqa: S105 (the end of a list, not a secret)
        container.append(value)
    else:
        index = _index(container, token, end=len(container) + 1)
        if index is None:
            raise _missing("add", path)
        container.insert(index, value)
    return document


def _remove(document: Any, path: str) -> Any:
    if not path:
        raise _missing("remove", path)
    container, token = _parent(document, path, "remove")
    if isinstance(container, dict):
        if token not in container:
            raise _missing("remove", path)
        del container[token]
        return document
    index = _index(container, token, end=len(container))
    if index is None:
        raise _missing("remove", path)
    del container[index]
    return document


def _replace(document: Any, path: str, value: Any) -> Any:
    if not path:
        return value
    container, token = _parent(document, path, "replace")
    if isinstance(container, dict):
        container[token] = value
        return document
    index = _index(container, token, end=len(container))
    if index is None:
        raise _missing("replace", path)
    container[index] = value
    return document


def _test(document: Any, path: str, operation: dict[str, Any]) -> Any:
    """Compare; a missing member equals null."""
    wanted = operation.get("value")
    if not path:
        found = document
    else:
        container, token = _parent(document, path, "test")
        found = _step(container, token)
    if found is _GONE:
        found = None
    if json.dumps(found, sort_keys=True) != json.dumps(wanted, sort_keys=True):
        raise _unprocessable(f"testing path {path} failed: test failed")
    return document
