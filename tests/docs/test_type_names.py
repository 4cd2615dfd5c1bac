"""One name, one type: no two classes of the product share a name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PRODUCT = Path(__file__).parents[2] / "src" / "redis_operator"
SHARED: dict[str, set[str]] = {}
"""Names that two modules have. It may only shrink: name a new type by what it is."""


def _shared() -> dict[str, set[str]]:
    """The names of classes, public and private, that more than one module defines."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in PRODUCT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name].add(str(path.relative_to(PRODUCT)))
    return {name: modules for name, modules in found.items() if len(modules) > 1}


def test_no_two_types_share_a_name() -> None:
    found = _shared()
    new = {name: modules for name, modules in found.items() if modules != SHARED.get(name)}
    assert not new, f"two types have one name: {new}"
    assert not SHARED.keys() - found.keys(), "no longer shared: remove them from the list"
