"""Rules that could take too long on the largest object allowed are refused."""

from __future__ import annotations

from typing import Any

import pytest

from contract.definitions import ROOT, definition, version
from contract.driver import Api, until
from contract.golden import same
from redis_operator.api.crd import crds

TEXT = {"type": "string"}
SHORT = {"type": "string", "maxLength": 64}
NUMBER = {"type": "integer"}


def listed(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def mapped(values: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values, **more}


def record(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def ruled(schema: dict[str, Any], *rules: str) -> dict[str, Any]:
    return {**schema, "x-kubernetes-validations": [{"rule": each} for each in rules]}


TWICE = "self.l.all(x, self.l.exists_one(y, y == x))"
CASES: dict[str, dict[str, Any]] = {
    "each of a bounded list": ruled(
        record(l=listed(SHORT, maxItems=100)), "self.l.all(x, x.matches('^a+$'))"
    ),
    "each of an unbounded list": ruled(record(l=listed(NUMBER)), "self.l.all(x, x > 1)"),
    "each with each": ruled(record(l=listed(NUMBER)), TWICE),
    "each with each, bounded": ruled(record(l=listed(SHORT, maxItems=50)), TWICE),
    "each with each, bounded too high": ruled(record(l=listed(SHORT, maxItems=2000)), TWICE),
    "just above the limit": ruled(
        record(l=listed(NUMBER, maxItems=1300)), "self.l.all(x, self.l.exists(y, y == x))"
    ),
    "three loops": ruled(
        record(l=listed(NUMBER, maxItems=150)),
        "self.l.all(x, self.l.all(y, self.l.exists(z, z == x + y)))",
    ),
    "a text without a length": ruled(record(t=TEXT), "self.t.matches('^[a-z]+(-[a-z]+)*$')"),
    "texts without a length in a list": ruled(
        record(l=listed(TEXT, maxItems=50)), "self.l.all(x, x.contains('abcdefghij'))"
    ),
    "a rule in each of a list": record(l=listed(ruled(record(t=SHORT), "self.t.size() > 1"))),
    "a dear rule in each of a list": record(
        l=listed(ruled(record(t=SHORT), "self.t.matches('^[a-z]+(-[a-z]+)*$')"))
    ),
    "a dear rule in each of a bounded list": record(
        l=listed(ruled(record(t=SHORT), "self.t.matches('^[a-z]+$')"), maxItems=20)
    ),
    "the keys of a map": ruled(record(m=mapped(TEXT)), "self.m.all(k, k.startsWith('a'))"),
    "the values of a map": ruled(
        record(m=mapped(SHORT, maxProperties=30)), "self.m.all(k, self.m[k].matches('^a'))"
    ),
    "lists in lists": ruled(record(l=listed(listed(NUMBER))), "self.l.all(x, x.all(y, y > 0))"),
    "filtered and joined": ruled(
        record(l=listed(SHORT)), "self.l.filter(x, x != 'a').map(x, x + 'b').join(',').size() < 9"
    ),
    "an old list": ruled(record(l=listed(SHORT)), "oldSelf.l.all(x, x in self.l)"),
    "an immutable object": ruled(record(l=listed(TEXT), t=TEXT), "self == oldSelf"),
    "an immutable text": record(t=ruled(TEXT, "self == oldSelf")),
    "numbers": ruled(
        record(a=NUMBER, b=NUMBER), "!has(self.a) || self.a > (has(self.b) ? self.b : 1) * 2 - 1"
    ),
    "a list of choices": ruled(record(t=TEXT), "self.t in ['a', 'b'] || size(self.t) == 3"),
    "amounts": ruled(
        record(l=listed(TEXT)), "self.l.all(x, quantity(x).isLessThan(quantity('1')))"
    ),
    "many rules together": record(
        **{
            f"l{number:02d}": ruled(
                listed(NUMBER, maxItems=1000 + number), "self.all(x, self.exists(y, y == x))"
            )
            for number in range(20)
        }
    ),
}


@pytest.fixture
def group(unique: str) -> str:
    return f"g{unique}.contract.test"


@pytest.mark.parametrize("case", CASES)
def test_a_rule_costs_what_the_largest_object_could_take(api: Api, group: str, case: str) -> None:
    body = definition(group, "Thing", version("v1", {"spec": CASES[case]}))
    reply = api.request("POST", ROOT, body, dryRun="All")
    causes = sorted(reply.causes()) if reply.status == 422 else []
    assert reply.status in (201, 422), reply.text
    # A real server names the schema by its place in a former version of definitions.
    found = [["openAPIV3Schema" + c[0].partition("openAPIV3Schema")[2], *c[1:]] for c in causes]
    same("rule-costs", case, found)


def test_a_change_to_a_dear_rule_is_refused(api: Api, group: str) -> None:
    body = definition(group, "Thing", version("v1", {"spec": CASES["numbers"]}))
    path = f"{ROOT}/{body['metadata']['name']}"
    made = api.request("POST", ROOT, body).object
    try:
        schema = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["properties"]["spec"] = CASES["each with each"]

        def changed() -> bool:
            now = api.request("GET", path).object["metadata"]["resourceVersion"]
            made["metadata"]["resourceVersion"] = now
            reply = api.request("PUT", path, made)
            assert reply.status in (409, 422), reply.text
            return reply.status == 422

        until("the change is refused", changed)
    finally:
        api.request("DELETE", path)


@pytest.mark.parametrize("name", sorted(crds()))
def test_our_own_definitions_are_accepted(api: Api, group: str, name: str) -> None:
    """Under another group, so that it does not matter whether they are installed."""
    ours = crds()[name]
    plural = ours["spec"]["names"]["plural"]
    body = ours | {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": ours["spec"] | {"group": group},
    }
    reply = api.request("POST", ROOT, body, dryRun="All")
    assert reply.status == 201, reply.text
