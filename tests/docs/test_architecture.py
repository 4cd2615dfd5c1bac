"""Pages about the tree lead to files that exist, and what they name is in the file they link."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#]+)\)")
_PAGES = (ROOT / "ARCHITECTURE.md", ROOT / "docs" / "newcomers.md")
_LINKS = [
    (text, str((page.parent / target).resolve().relative_to(ROOT)))
    for page in _PAGES
    for text, target in _LINK.findall(page.read_text())
    if "://" not in target
]


def _defined(path: Path) -> set[str]:
    """Names at the top of a module, and methods as Class.method."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{part.name}" for part in node.body if hasattr(part, "name")}
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


@pytest.mark.parametrize(("text", "target"), _LINKS, ids=[target for _, target in _LINKS])
def test_a_link_leads_to_what_it_names(text: str, target: str) -> None:
    path = ROOT / target
    assert path.exists(), f"{target} does not exist"
    if path.suffix != ".py" or path.name == "__init__.py":
        return
    spoken = [name for name in re.findall(r"`([^`]+)`", text) if "/" not in name and name != "."]
    missing = [n for n in spoken if not n.endswith(".py") and n.split(".")[0] not in _PACKAGES]
    assert set(missing) <= _defined(path), f"{target} has no {set(missing) - _defined(path)}"


_PACKAGES = {"redis", "kubecontroller", "kubelocal"}
