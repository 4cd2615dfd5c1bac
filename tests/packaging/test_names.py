"""The library and the local cluster know no product, not even by name."""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
PRODUCT = re.compile(r"redis|valkey", re.IGNORECASE)


@pytest.mark.parametrize("package", ["kubecontroller", "kubelocal"])
def test_no_line_names_the_product(package: str) -> None:
    named = [
        f"{path.relative_to(SOURCE)}:{number}: {line.strip()[:80]}"
        for path in sorted((SOURCE / package).rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if PRODUCT.search(line)
    ]
    assert named == []


def test_every_module_that_is_loaded_by_its_name_exists() -> None:
    named = re.compile(r"(kubecontroller|kubelocal|redis_operator)(\.[a-z_]\w*)+")
    texts = [
        (f"{path.relative_to(SOURCE)}:{node.lineno}", node.value)
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    found = [(place, text) for place, text in texts if named.fullmatch(text)]
    assert len(found) > 4
    assert [(place, text) for place, text in found if find_spec(text) is None] == []


def test_no_module_is_loaded_by_a_name_relative_to_its_place() -> None:
    relative = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and "import_module"
        in ast.unparse(node.func) + "".join(ast.unparse(argument) for argument in node.args)
        if "__package__" in ast.unparse(node)
    ]
    assert relative == []
