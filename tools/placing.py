"""Put a changed function or constant in the place of one that was imported already."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from datetime import timedelta
from types import CodeType, FunctionType, ModuleType
from typing import Any

__all__ = ["place"]

_SIMPLE = (bool, int, float, str, bytes, timedelta)


def place(filename: str, function_line: int, source: str) -> bool:
    """Change what was imported from a file; False when that is not possible.

    `function_line` is where the changed function begins, 0 for what runs at import.
    """
    try:
        code = compile(source, filename, "exec", dont_inherit=True)
        return _function(code, filename, function_line) if function_line else _values(code)
    except Exception:  # a module that does not import twice, a closure that changes
        return False


def _function(module: CodeType, filename: str, line: int) -> bool:
    changed = {code.co_qualname: code for code in _codes(module) if code.co_firstlineno == line}
    found = [
        one
        for one in _objects()
        if type(one) is FunctionType
        and one.__code__.co_filename == filename
        and one.__code__.co_firstlineno == line
        and one.__code__.co_qualname in changed
    ]
    for function in found:
        function.__code__ = changed[function.__code__.co_qualname]
    return bool(found)


def _objects() -> list[Any]:
    """All objects that the collector knows, those that were frozen after the import included."""
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    found = gc.get_objects()
    if frozen:
        gc.freeze()
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _values(code: CodeType) -> bool:
    """Run the changed module beside the imported one and take over the values that differ."""
    old = next(
        module
        for module in list(sys.modules.values())
        if getattr(module, "__file__", None) == code.co_filename
    )
    new = ModuleType(old.__name__)
    new.__file__ = old.__file__
    new.__package__ = old.__package__
    sys.modules[old.__name__] = new  # dataclasses look their module up
    try:
        exec(code, new.__dict__)
    finally:
        sys.modules[old.__name__] = old
    changed = 0
    for name, value in list(vars(old).items()):
        other = vars(new).get(name)
        if name.startswith("__"):
            continue
        if _differs(value, other):
            changed += _rebind(name, value, other)
        elif getattr(value, "__module__", None) == old.__name__:
            changed += _defaults(value, other)
    return changed > 0


def _rebind(name: str, value: Any, other: Any) -> int:
    for module in list(sys.modules.values()):
        if vars(module).get(name) is value:
            setattr(module, name, other)
    return 1


def _defaults(value: Any, other: Any) -> int:
    """Take over the defaults of arguments, those that dataclasses write included."""
    if isinstance(value, FunctionType) and isinstance(other, FunctionType):
        return _arguments(value, other)
    changed = 0
    if isinstance(value, type) and isinstance(other, type):
        for name, member in list(vars(value).items()):
            theirs = vars(other).get(name)
            if isinstance(member, FunctionType) and isinstance(theirs, FunctionType):
                changed += _arguments(member, theirs)
            elif not name.startswith("__") and _differs(member, theirs):
                setattr(value, name, theirs)
                changed += 1
    return changed


def _arguments(function: FunctionType, other: FunctionType) -> int:
    changed = 0
    mine, theirs = function.__defaults__ or (), other.__defaults__ or ()
    if len(mine) == len(theirs) and any(_differs(a, b) for a, b in zip(mine, theirs, strict=True)):
        pairs = zip(mine, theirs, strict=True)
        function.__defaults__ = tuple(b if _differs(a, b) else a for a, b in pairs)
        changed += 1
    named = dict(function.__kwdefaults__ or {})
    for name, value in named.items():
        given = (other.__kwdefaults__ or {}).get(name)
        if _differs(value, given):
            named[name] = given
            function.__kwdefaults__ = named
            changed += 1
    return changed


def _differs(one: Any, other: Any) -> bool:
    return _is_simple(one) and type(one) is type(other) and bool(one != other)


def _is_simple(value: Any) -> bool:
    """Whether it is a value without identity, all the way down: functions and classes are not."""
    if isinstance(value, dict):
        return all(_is_simple(one) for pair in value.items() for one in pair)
    if isinstance(value, tuple | list | set | frozenset):
        return all(map(_is_simple, value))
    return isinstance(value, _SIMPLE) or value is None
