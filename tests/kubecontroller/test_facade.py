"""What authors of operators import: few names, all there, none loaded before it is needed.

The product, the local cluster, the examples and the documents import nothing else of the library.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import kubecontroller

ROOT = Path(__file__).resolve().parents[2]
PUBLIC = {
    name: import_module(name)
    for name in (
        "kubecontroller",
        "kubecontroller.client",
        "kubecontroller.client.objects",
        "kubecontroller.custom",
        "kubecontroller.runtime",
        "kubecontroller.runtime.certificates",
        "kubecontroller.testing",
    )
}
SOURCES = [
    path
    for folder in ("src/redis_operator", "src/kubelocal", "examples")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
PAGES = sorted((ROOT / "docs" / "kubecontroller").glob("*.md"))
PURE = ("api", "manifests", "planning", "translation")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def imported(source: str) -> Iterator[tuple[str, str]]:
    """Each module of the library that is imported, with the name that is taken from it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if _is_ours(alias.name))
        elif isinstance(node, ast.ImportFrom) and node.module and _is_ours(node.module):
            yield from ((node.module, alias.name) for alias in node.names)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "kubecontroller"


def is_public(module: str, name: str) -> bool:
    if module not in PUBLIC:
        return False
    return not name or name in PUBLIC[module].__all__ or f"{module}.{name}" in PUBLIC


def private_imports(where: str, source: str) -> list[str]:
    return [f"{where}: {m} {n}".rstrip() for m, n in imported(source) if not is_public(m, n)]


def test_product_local_cluster_and_examples_import_only_public_names() -> None:
    assert len(SOURCES) > 300
    found = [
        private
        for path in SOURCES
        for private in private_imports(str(path.relative_to(ROOT)), path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_documents_import_only_public_names(page: Path) -> None:
    blocks = BLOCK.findall(page.read_text())
    assert blocks
    wrapped = [
        "async def snippet():\n" + re.sub("^", "    ", b, flags=re.MULTILINE) for b in blocks
    ]
    futures = re.compile(r"^ *from __future__ .*$", re.MULTILINE)
    assert [
        p for block in wrapped for p in private_imports(page.name, futures.sub("", block))
    ] == []


def test_pure_logic_imports_only_the_pure_part() -> None:
    found = {
        (str(path.relative_to(ROOT)), module)
        for folder in PURE
        for path in (ROOT / "src" / "redis_operator" / folder).rglob("*.py")
        for module, name in imported(path.read_text())
        if "kubecontroller.custom" not in (module, f"{module}.{name}")
    }
    assert found == set()


def test_a_private_import_is_noticed_however_it_is_written() -> None:
    source = """
        import kubecontroller.runtime.workqueue
        from kubecontroller.client.meta import Key
        from kubecontroller.client import verbs
        from kubecontroller import Key, client, custom
    """
    assert private_imports("x", re.sub("^ +", "", source, flags=re.MULTILINE)) == [
        "x: kubecontroller.runtime.workqueue",
        "x: kubecontroller.client.meta Key",
        "x: kubecontroller.client verbs",
    ]


@pytest.mark.parametrize("module", PUBLIC.values(), ids=lambda module: module.__name__)
def test_every_name_is_there_and_is_what_its_module_calls_so(module: ModuleType) -> None:
    for name in module.__all__:
        found = getattr(module, name)
        home = sys.modules.get(getattr(found, "__module__", "") or "")
        assert found is not None
        assert home is None or getattr(home, name, found) is found


def test_a_name_means_one_thing_in_all_public_modules() -> None:
    for name in {name for module in PUBLIC.values() for name in module.__all__}:
        found = [getattr(m, name) for m in PUBLIC.values() if name in m.__all__]
        assert all(one is found[0] for one in found), name


def test_only_pure_names_can_be_imported_from_two_modules() -> None:
    listed = [
        n for m in PUBLIC.values() if m is not PUBLIC["kubecontroller.custom"] for n in m.__all__
    ]
    assert sorted({name for name in listed if listed.count(name) > 1}) == []


def test_the_names_fit_on_a_screen() -> None:
    assert len(kubecontroller.__all__) <= 51


def test_what_is_not_there_is_said_with_its_name() -> None:
    with pytest.raises(AttributeError, match="Informers"):
        kubecontroller.Informers  # type: ignore[attr-defined]  # noqa: B018


def test_nothing_is_loaded_before_it_is_needed() -> None:
    program = (
        "import sys, kubecontroller.runtime, kubecontroller.client, kubecontroller.testing;"
        "print(*[n for n in sys.modules if n.startswith('kubecontroller.')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    packages = {f"kubecontroller.{name}" for name in ("client", "runtime", "testing", "_lazy")}
    assert set(done.stdout.split()) == packages
