"""The cost of a rule on the largest object that its schema allows, as Kubernetes estimates it.

The author of a definition must bound lists, maps and texts, or a rule that loops over them is
refused. The figures are those of CEL's own estimate and of Kubernetes' functions. Where the size of
a value is not known here it counts as small: such a rule is accepted, never refused in error. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from kubelocal.apiserver.causes import Cause, forbidden
from kubelocal.apiserver.custom.cel.syntax import (
    Call,
    Expression,
    Ident,
    Listed,
    Literal,
    Mapped,
    Select,
    parse,
)
from kubelocal.apiserver.custom.cel.values import escaped

__all__ = ["cost_problems", "estimate"]

_REQUEST = 3 * 1024 * 1024  # bytes of the largest request
_RULE_LIMIT = 10_000_000
_TOTAL_LIMIT = 100_000_000
_MOST = 2**64 - 1
_SHOWN = 4  # this many rules are named when all together cost too much
_TRAVERSAL, _REGEX = 0.1, 0.25
_MINIMA = {"integer": 1, "number": 1, "boolean": 4, "array": 2, "object": 2, "string": 2}
_TIMES = {"duration": (3, 32), "date": (12, 12), "date-time": (21, 32)}
_ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, "
    "maps, and strings are declared)"
)
_MADE = "x-size"  # marks items that a rule itself made, with the size that they have
Schema = dict[str, Any]


class _Value(Struct, frozen=True):
    """The cost of an expression, the largest size of its result, and the schema of the result."""

    cost: int
    size: int = 1
    schema: Schema | None = None


def cost_problems(schema: Schema, at: str) -> Iterator[Cause]:
    """Yield the rules of a whole schema that cost too much, alone or together."""
    costs: list[tuple[int, str]] = []
    for place, rule, cost in _rules(schema, at, 1):
        costs.append((cost, place))
        if cost > _RULE_LIMIT:
            yield forbidden(place, _excess(f"estimated {rule} cost", cost, _RULE_LIMIT))
    total = sum(cost for cost, _ in costs)
    if total <= _TOTAL_LIMIT:
        return
    dear = [one for one in costs if one[0] >= _TOTAL_LIMIT // 100]
    for _, place in sorted(dear, key=lambda one: -one[0])[:_SHOWN]:
        text = "contributed to estimated rule cost total exceeding cost limit for entire"
        yield forbidden(place, f"{text} OpenAPIv3 schema")
    what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
    yield forbidden(at, _excess(what, total, _TOTAL_LIMIT))


def _excess(what: str, cost: int, limit: int) -> str:
    factor = min(cost, _MOST) / limit
    shown = f"{factor:.1f}x"
    if factor > 100:
        shown = "more than 100x"
    elif factor < 1.5:
        shown = f"{factor:.6f}x"
    return f"{what} exceeds budget by factor of {shown} {_ADVICE}"


def _rules(schema: Schema, path: str, count: int | None) -> Iterator[tuple[str, str, int]]:
    """Yield the place, the kind and the cost of every rule below a schema.

    `count` is how often such a value can occur, if everything around it is bounded.
    """
    times = _REQUEST // (_smallest(schema) + 1) if count is None else count
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        place = f"{path}.x-kubernetes-validations[{index}]"
        cost = min(estimate(schema, rule.get("rule", "")) * times, _MOST)
        yield f"{place}.rule", "rule", cost
        if rule.get("messageExpression"):
            cost = estimate(schema, rule["messageExpression"])
            yield f"{place}.messageExpression", "messageExpression", cost
    for name, sub in (schema.get("properties") or {}).items():
        yield from _rules(sub, f"{path}.properties[{name}]", count)
    for word, bound in (("items", "maxItems"), ("additionalProperties", "maxProperties")):
        if isinstance(schema.get(word), dict):
            limit = schema.get(bound)
            below = None if count is None or limit is None else count * max(limit, 0)
            yield from _rules(schema[word], f"{path}.{word}", below)


def _smallest(schema: Schema) -> int:
    """Return the fewest bytes of a value as JSON."""
    if schema.get("x-kubernetes-int-or-string"):
        return 1
    kind = schema.get("type", "")
    if kind == "string" and schema.get("format") in _TIMES:
        return _TIMES[schema["format"]][0]
    size = _MINIMA.get(kind, 2)
    if kind == "object" and not isinstance(schema.get("additionalProperties"), dict):
        properties = schema.get("properties") or {}
        for name in set(schema.get("required") or ()) & set(properties):
            if "default" not in properties[name]:
                size += len(name) + _smallest(properties[name]) + 4
    return size


def _largest(schema: Schema) -> int:
    """Return the most items, entries or characters of a value; 0 where none are counted."""
    kind = schema.get("type", "")
    if schema.get("x-kubernetes-int-or-string") or kind == "string":
        return _longest(schema)
    if kind == "array":
        bound = schema.get("maxItems")
        least = _smallest(schema.get("items") or {})
        return max(bound, 0) if bound is not None else (_REQUEST - 2) // (least + 1)
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        bound = schema.get("maxProperties")
        least = _smallest(schema["additionalProperties"])
        return max(bound, 0) if bound is not None else (_REQUEST - 2) // (least + 6)
    return 0


def _longest(schema: Schema) -> int:
    form, bound = schema.get("format", ""), schema.get("maxLength")
    if form in _TIMES:
        return _TIMES[form][1]
    if bound is not None:
        width = 1 if form == "byte" else 4  # bytes of the longest character
        return max(int(bound), 0) * width
    choices = schema.get("enum") or ()
    if choices:
        return max((len(one.encode()) for one in choices if isinstance(one, str)), default=0)
    return _REQUEST - 2


def estimate(schema: Schema, source: str) -> int:
    """Return the highest cost of one run of a rule over a value of a schema."""
    tree = parse(source)
    if tree is None:
        return 0
    own = _Value(1, _largest(schema), schema)
    return min(_Estimate({"self": own, "oldSelf": own}).of(tree).cost, _MOST)


def _part(factor: float, size: int) -> int:
    return math.ceil(min(size, _MOST) * factor)


class _Estimate:
    def __init__(self, variables: dict[str, _Value]) -> None:
        self._variables = variables

    def of(self, tree: Expression) -> _Value:
        match tree:
            case Literal(size=size):
                return _Value(0, size)
            case Ident(name=name):
                return self._variables.get(name, _Value(1))
            case Select(operand=operand, field=field):
                return _field(self.of(operand), field)
            case Listed(items=items):
                found = [self.of(item) for item in items]
                # Concatenation does not know the length of texts that a rule itself wrote.
                made = {"type": "array", "items": {_MADE: 1}}
                return _Value(10 + sum(one.cost for one in found), len(found), made)
            case Mapped(items=items):
                found = [self.of(item) for item in items]
                return _Value(30 + sum(one.cost for one in found), len(found) // 2)
            case Call():
                return self._call(tree)

    def _call(self, call: Call) -> _Value:
        if call.target is not None and call.function in _MACROS and len(call.args) > 1:
            return self._loop(call)
        if call.function == "has" and call.target is None and len(call.args) == 1:
            return _Value(self._presence(call.args[0]))
        if call.function == "bind" and call.target == Ident("cel") and len(call.args) == 3:
            name, first, rest = call.args
            bound = self.of(first)
            found = self._with({_name(name): bound}).of(rest)
            return _Value(10 + bound.cost + found.cost, found.size, found.schema)
        args = [self.of(arg) for arg in call.args]
        target = None if call.target is None else self.of(call.target)
        found = _function(call.function, target, args)
        own = found.cost if call.function != "_?_:_" else max(args[1].cost, args[2].cost)
        paid = args if call.function != "_?_:_" else args[:1]
        cost = own + sum(one.cost for one in paid) + (target.cost if target else 0)
        return _Value(cost, found.size, found.schema)

    def _presence(self, tree: Expression) -> int:
        return self.of(tree.operand).cost if isinstance(tree, Select) else 0

    def _with(self, more: dict[str, _Value]) -> _Estimate:
        return _Estimate(self._variables | more)

    def _loop(self, call: Call) -> _Value:
        """Estimate a macro: the cost of one step, as often as there are items."""
        assert call.target is not None
        over = self.of(call.target)
        first, step, last = _MACROS[call.function]
        variables = _variables(over, [_name(arg) for arg in call.args[:-1]])
        bodies = call.args[-1:]
        if call.function == "map" and len(call.args) == 3:
            variables, bodies = _variables(over, [_name(call.args[0])]), call.args[1:]
        inner = self._with(variables)
        body = [inner.of(one) for one in bodies]
        once = step + sum(one.cost for one in body)
        cost = over.cost + first + last + min(over.size, _MOST) * once
        if call.function == "map":
            item = {_MADE: body[-1].size, **(body[-1].schema or {})}
            return _Value(cost, over.size, {"type": "array", "items": item})
        if call.function == "filter":
            return _Value(cost, over.size, over.schema)
        return _Value(cost)


# The cost of a macro before its loop, in each step beside its argument, and after it.
_MACROS = {
    "all": (0, 3, 1),
    "exists": (0, 4, 1),
    "exists_one": (0, 2, 2),
    "existsOne": (0, 2, 2),
    "map": (10, 12, 1),
    "filter": (10, 13, 1),
}


def _name(tree: Expression) -> str:
    return tree.name if isinstance(tree, Ident) else ""


def _variables(over: _Value, names: list[str]) -> dict[str, _Value]:
    item = _item(over)
    if len(names) > 1:
        return {names[0]: _Value(1), names[1]: item}
    is_map = over.schema is not None and over.schema.get("type") == "object"
    return {names[0]: _Value(1, 0) if is_map else item}


def _item(over: _Value) -> _Value:
    """Return the value of one item of a list, or one value of a map."""
    schema = over.schema or {}
    below = schema.get("items") or schema.get("additionalProperties")
    if not isinstance(below, dict):
        return _Value(1)
    return _Value(1, below.get(_MADE, _largest(below)), below)


def _of_unknown_size(over: _Value) -> int:
    """Return the size of an item for functions that consider declared lists only."""
    item = _item(over)
    return _MOST if item.schema is not None and _MADE in item.schema else item.size


def _field(of: _Value, name: str) -> _Value:
    schema = of.schema or {}
    below = (schema.get("properties") or {}).get(name)
    if below is None:
        below = next(
            (one for key, one in (schema.get("properties") or {}).items() if escaped(key) == name),
            None,
        )
    if below is None and isinstance(schema.get("additionalProperties"), dict):
        below = schema["additionalProperties"]
    return _Value(of.cost + 1) if below is None else _Value(of.cost + 1, _largest(below), below)


def _function(name: str, target: _Value | None, args: list[_Value]) -> _Value:
    """Return the cost of one call by itself, and its result."""
    if name.startswith(("_", "@")):
        return _operator(name, args)
    subject = target or (args[0] if args else _Value(0))
    if name in {"matches", "find", "findAll"}:
        pattern = args[-1] if args else subject
        cost = _part(_TRAVERSAL, subject.size + 1) * _part(_REGEX, pattern.size)
        return _Value(cost, 1 if name == "matches" else subject.size)
    if name in {"quantity", "isQuantity", "semver", "isSemver", "cidr", "isIP", "isCIDR", "ip"}:
        return _Value(_part(_TRAVERSAL, args[0].size) if args else 1)
    return _Value(1) if target is None else _method(name, target, args)


def _operator(name: str, args: list[_Value]) -> _Value:
    first, second = args[0], args[-1]
    match name:
        case "_&&_" | "_||_":
            return _Value(0)
        case "_?_:_":
            larger = max(args[1:], key=lambda one: one.size)
            return _Value(0, larger.size, larger.schema)
        case "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_":
            return _Value(_part(_TRAVERSAL, min(first.size, second.size)))
        case "_[_]":
            item = _item(first)
            return _Value(1, item.size, item.schema)
        case "@in":
            is_map = second.schema is not None and second.schema.get("type") == "object"
            return _Value(1 if is_map else second.size)
        case "_+_" if first.size > 1 or second.size > 1:
            return _sum(first, second)
    return _Value(1)


def _method(name: str, target: _Value, args: list[_Value]) -> _Value:
    """Return the cost of a method of texts or lists."""
    first = args[0].size if args else 0
    match name:
        case "startsWith" | "endsWith":
            return _Value(_part(_TRAVERSAL, first))
        case "contains":
            return _Value(_part(_TRAVERSAL, target.size) * _part(_TRAVERSAL, first))
        case "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf":
            return _Value(_each(target))
        case "lowerAscii" | "upperAscii" | "substring" | "trim":
            return _Value(_part(_TRAVERSAL, target.size), target.size)
        case "split" | "replace":
            return _Value(_part(2 * _TRAVERSAL, target.size), target.size)
        case "join":
            size = target.size * _of_unknown_size(target) + first * max(target.size - 1, 0)
            return _Value(_part(_TRAVERSAL, size), size)
    return _Value(1)


def _sum(first: _Value, second: _Value) -> _Value:
    size = first.size + second.size
    is_list = any(one.schema and one.schema.get("type") == "array" for one in (first, second))
    if is_list:
        return _Value(1, size, first.schema or second.schema)
    return _Value(_part(_TRAVERSAL, size), size)


def _each(target: _Value) -> int:
    schema = target.schema or {}
    if schema.get("type") != "array":
        return _part(_TRAVERSAL, target.size)
    item = schema.get("items") or {}
    is_text = item.get("type") == "string"
    return target.size * (1 + (_part(_TRAVERSAL, _of_unknown_size(target)) if is_text else 0))
