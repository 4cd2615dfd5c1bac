"""Rules in schemas: the expression language as custom resources use it."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from contract.definitions import definition, place, served, version
from contract.driver import Api, Space

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
RULES: list[tuple[str, str, dict[str, Any], bool]] = [
    ("all", "self.names.all(n, n.startsWith('a'))", {"names": ["ab", "ac"]}, True),
    ("all fails", "self.names.all(n, n.startsWith('a'))", {"names": ["ab", "bc"]}, False),
    ("exists", "self.names.exists(n, n == 'b')", {"names": ["a", "b"]}, True),
    ("exists one", "self.names.exists_one(n, n == 'b')", {"names": ["b", "b"]}, False),
    ("size", "size(self.names) == 2", {"names": ["a", "b"]}, True),
    (
        "map and filter",
        "self.names.filter(n, n != 'a').map(n, n + '!') == ['b!']",
        {"names": ["a", "b"]},
        True,
    ),
    ("matches", "self.text.matches('^[0-9]+$')", {"text": "123"}, True),
    ("matches fails", "self.text.matches('^[0-9]+$')", {"text": "12x"}, False),
    ("in", "self.text in ['a', 'b']", {"text": "b"}, True),
    ("ternary", "self.size > 2 ? self.text == 'big' : true", {"size": 3, "text": "small"}, False),
    ("arithmetic", "self.size % 2 == 1", {"size": 3}, True),
    ("has", "has(self.text)", {}, False),
    ("quantity", "quantity(self.text).isGreaterThan(quantity('1Gi'))", {"text": "2Gi"}, True),
    (
        "quantity fails",
        "quantity(self.text).isGreaterThan(quantity('1Gi'))",
        {"text": "512Mi"},
        False,
    ),
    ("is quantity", "isQuantity(self.text)", {"text": "nope"}, False),
    ("duration", "duration(self.text) > duration('1m')", {"text": "2m"}, True),
    ("map keys", "self.labels.all(k, k != 'bad')", {"labels": {"bad": "1"}}, False),
    ("find", "self.text.find('[0-9]+') == '12'", {"text": "ab12c"}, True),
    ("split", "self.text.split(',')[1] == 'b'", {"text": "a,b"}, True),
    ("lower case", "self.text.lowerAscii() == 'abc'", {"text": "ABC"}, True),
    ("sum", "self.sizes.sum() == 6", {"sizes": [1, 2, 3]}, True),
    ("is sorted", "self.sizes.isSorted()", {"sizes": [2, 1]}, False),
    ("index of", "self.names.indexOf('b') == 1", {"names": ["a", "b"]}, True),
]


@pytest.fixture(scope="module")
def ruled(api: Api) -> Any:
    """One kind for each rule, all in one group."""
    group = f"r{uuid.uuid4().hex[:8]}.contract.test"
    names = {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 20}}
    properties = {
        "names": names,
        "text": {"type": "string", "maxLength": 50},
        "size": NUMBER,
        "sizes": {"type": "array", "maxItems": 10, "items": NUMBER},
        "labels": {"type": "object", "maxProperties": 5, "additionalProperties": TEXT},
    }
    cases = {}
    for number, (_, rule, _, _) in enumerate(RULES):
        cases[f"c{number}"] = {
            "type": "object",
            "properties": properties,
            "x-kubernetes-validations": [{"rule": rule, "message": "does not hold"}],
        }
    spec = {"type": "object", "properties": cases}
    body = definition(group, "Ruled", version("v1", {"spec": spec}))
    with served(api, body):
        yield body


@pytest.mark.parametrize("number", range(len(RULES)), ids=[each[0] for each in RULES])
def test_rule(space: Space, ruled: dict[str, Any], number: int) -> None:
    place(space, ruled, "v1")
    _, _, value, holds = RULES[number]
    body = {"metadata": {"name": "a"}, "spec": {f"c{number}": value}}
    reply = space.post("ruleds", body)
    if holds:
        assert reply.status == 201, reply.text
    else:
        reply.refused(422)
        assert reply.causes() == {
            (f"spec.c{number}", "FieldValueInvalid", 'Invalid value: "object": does not hold')
        }
