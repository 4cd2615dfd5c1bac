"""Every package says what is in it, what it may import, who calls it and where to begin."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LABELS = ["May import", "Called by", "Begin with"]
_PART = re.compile(rf"^({'|'.join(_LABELS)}): (.+(?:\n {{4}}.+)*)", re.MULTILINE)
# Parsing every module would take ten times as long.
_IMPORT = re.compile(r"^ *from (\.*)([\w.]*) import (\([^)]*\)|.+)", re.MULTILINE)
_TEXTS = {
    ".".join(path.relative_to(base).with_suffix("").parts): path.read_text()
    for base in (ROOT / "src", ROOT / "dev")
    for path in sorted(base.rglob("*.py"))
}
PACKAGES = [name.removesuffix(".__init__") for name in _TEXTS if name.endswith(".__init__")]
MODULES = {name.removesuffix(".__init__"): text for name, text in _TEXTS.items()}


@cache
def _parts(package: str) -> dict[str, list[str]]:
    """What a package says under each label: the names that stand in quotes."""
    said = ast.get_docstring(ast.parse(MODULES[package])) or ""
    return {label: re.findall(r"`([^`]+)`", text) for label, text in _PART.findall(said)}


def _package_of(module: str) -> str:
    return module if module in PACKAGES else module.rpartition(".")[0]


def _is_within(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"{package}.")


def _is_named(module: str, names: Iterable[str]) -> bool:
    """`planning` names every module of that package, `planning.plan` the one module."""
    return any(f".{name}." in f".{module}." for name in names)


@cache
def _imported(module: str) -> frozenset[str]:
    """The modules of these packages that a module imports."""
    found: set[str] = set()
    for level, place, names in _IMPORT.findall(MODULES[module]):
        parts = _package_of(module).split(".")
        base = parts[: len(parts) - len(level) + 1] if level else []
        origin = ".".join([*base, *filter(None, [place])])
        found |= {origin, *(f"{origin}.{name}" for name in re.findall(r"\w+", names))}
    return frozenset(found & MODULES.keys())


def test_every_package_says_what_is_in_it_what_it_may_import_who_calls_it_where_to_begin() -> None:
    wrong = []
    for package in PACKAGES:
        said = ast.get_docstring(ast.parse(MODULES[package])) or ""
        what = said.partition("May import:")[0].strip()
        labels = [label for label, _ in _PART.findall(said)]
        if not what or labels != _LABELS:
            wrong.append(f"{package}: has {labels}, and must have {_LABELS} after what is in it")
    assert not wrong, "\n".join(wrong)


def test_every_package_begins_with_a_module_that_exists() -> None:
    wrong = []
    for package in PACKAGES:
        begin = _parts(package).get("Begin with", [])
        modules = [name for name in begin if _begins(package, name)]
        if not modules:
            wrong.append(f"{package}: names no module to begin with")
        missing = [name for name in begin if name not in modules and not (ROOT / name).exists()]
        wrong += [f"{package}: has no {name}" for name in missing]
    assert not wrong, "\n".join(wrong)


def _begins(package: str, name: str) -> bool:
    """`plan` is a module of the package, `objects.stages` is defined in one."""
    if f"{package}.{name}" in MODULES:
        return True
    module, _, defined = name.rpartition(".")
    text = MODULES.get(f"{package}.{module}", "") if module else ""
    return re.search(rf"^(class|def|async def) {defined}\b", text, re.MULTILINE) is not None


def test_no_package_imports_what_it_does_not_name() -> None:
    """Its own modules, and those of the packages around it, go without saying."""
    wrong = [
        f"{module} imports {imported}: name it in the docstring of {package}, under May import"
        for package in PACKAGES
        for module in MODULES
        if _is_within(module, package)
        for imported in sorted(_imported(module))
        if not _is_within(package, _package_of(imported))
        and not _is_within(imported, package)
        and not _is_named(imported, _parts(package).get("May import", []))
    ]
    assert not wrong, "\n".join(wrong)


def test_whatever_a_package_names_as_its_caller_imports_it() -> None:
    """Tests and tools are named by their paths; what they use of it is one of its modules."""
    wrong = []
    for package in PACKAGES:
        callers = [
            module
            for module, text in MODULES.items()
            if not _is_within(module, package)
            # The keeper is started by its name.
            and (package in text or any(_is_within(name, package) for name in _imported(module)))
        ]
        wrong += [
            f"{package}: is not imported by {name}"
            for name in _parts(package).get("Called by", [])
            if not any(_is_named(caller, [name]) for caller in callers)
            and f"{package}.{name}" not in MODULES
            and not (ROOT / name).exists()
            and name != "redis-operator"  # the program
        ]
    assert not wrong, "\n".join(wrong)
