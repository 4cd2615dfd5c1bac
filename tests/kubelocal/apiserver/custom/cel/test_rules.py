"""Rules in CEL: what they see, what they say, and what a CRD may not have."""

from __future__ import annotations

from typing import Any

import pytest

from kubelocal.apiserver.causes import Cause
from kubelocal.apiserver.custom.cel.cost import cost_problems
from kubelocal.apiserver.custom.cel.rules import compile_rules, evaluate

INTEGER: dict[str, Any] = {"type": "integer"}
STRING: dict[str, Any] = {"type": "string"}


def ruled(*rules: dict[str, Any] | str, **properties: Any) -> dict[str, Any]:
    written = [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": written}
    return {"type": "object", "properties": {"spec": spec}}


def judged(schema: dict[str, Any], new: Any, old: Any = None) -> list[str]:
    before = None if old is None else {"spec": old}
    return [str(cause) for cause in evaluate(schema, {"spec": new}, before)]


@pytest.mark.parametrize(
    "rule",
    [
        "self.l.isSorted()",
        "self.l.sum() == 6",
        "self.l.min() == 1 && self.l.max() == 3",
        "self.l.indexOf(2) == 1 && self.l.indexOf(9) == -1",
        "self.s.find('[a-z]+') == 'abc'",
        "self.s.findAll('[0-9]') == ['1', '2']",
        "self.s.split('-') == ['abc', '12']",
        "self.s.replace('-', '') == 'abc12'",
        "self.s.substring(0, 3) == 'abc'",
        "self.s.upperAscii() == 'ABC-12'",
        "['a', 'b'].join(',') == 'a,b'",
        "' x '.trim() == 'x'",
        "'abc'.charAt(1) == 'b'",
        "quantity('1Gi').isGreaterThan(quantity('1000Mi'))",
        "quantity('1').compareTo(quantity('1000m')) == 0",
        "quantity('1k') == quantity('1000')",
        "quantity('500m').add(quantity('500m')) == quantity('1')",
        "isQuantity('1Gi') && !isQuantity('x')",
        "self.?missing.orValue(5) == 5",
        "self.?s.hasValue()",
        "self.m[?'k'].orValue('d') == 'v'",
        "self.t > timestamp('2020-01-01T00:00:00Z')",
        "self.d == duration('90s')",
        "self.a__dash__b == 1",
        "self.__namespace__ == 'n'",
        "self.n > 0.5",
        "has(self.s) && !has(self.missing)",
        "self.m.all(key, self.m[key] == 'v')",
        "sets.contains(self.l, [1, 2])",
        "math.greatest(1, 2) == 2",
        "'%d and %s'.format([1, 'x']) == '1 and x'",
    ],
)
def test_a_rule_can_use_what_kubernetes_offers(rule: str) -> None:
    schema = ruled(
        rule,
        l={"type": "array", "items": INTEGER},
        s=STRING,
        m={"type": "object", "additionalProperties": STRING},
        t={"type": "string", "format": "date-time"},
        d={"type": "string", "format": "duration"},
        n={"type": "number"},
        namespace=STRING,
        missing=INTEGER,
        **{"a-b": INTEGER},
    )
    value = {
        "l": [1, 2, 3],
        "s": "abc-12",
        "m": {"k": "v"},
        "t": "2026-01-01T00:00:00Z",
        "d": "1m30s",
        "n": 1,
        "namespace": "n",
        "a-b": 1,
    }
    assert compile_rules(schema) == []
    assert judged(schema, value) == []


def test_a_broken_rule_says_so_in_its_own_words_or_ours() -> None:
    schema = ruled("self.a > 1", {"rule": "self.a > 2", "message": "too small"}, a=INTEGER)
    assert judged(schema, {"a": 0}) == [
        'spec: Invalid value: "object": failed rule: self.a > 1',
        'spec: Invalid value: "object": too small',
    ]


def test_a_message_can_be_computed_and_placed() -> None:
    rule = {
        "rule": "self.a < self.b",
        "messageExpression": "'a is ' + string(self.a)",
        "fieldPath": ".a",
    }
    schema = ruled(rule, a=INTEGER, b=INTEGER)
    assert judged(schema, {"a": 2, "b": 1}) == ['spec.a: Invalid value: "object": a is 2']


def test_a_message_that_cannot_be_computed_falls_back() -> None:
    rule = {"rule": "false", "messageExpression": "self.missing", "message": "plain"}
    assert judged(ruled(rule, missing=STRING), {}) == ['spec: Invalid value: "object": plain']


def test_a_message_may_speak_of_fields_that_its_rule_does_not_look_at() -> None:
    rule = {"rule": "self.a > 1", "messageExpression": "self.b + ' is the reason'"}
    found = judged(ruled(rule, a=INTEGER, b=STRING), {"a": 1, "b": "this"})
    assert found == ['spec: Invalid value: "object": this is the reason']


@pytest.mark.parametrize(
    "rule",
    [
        "self.size() == 2",
        "self.all(name, name in ['a', 'b'])",
        "self == {'a': 1, 'b': 2}",
        "self['b'] == 2",
        "self.?b.orValue(0) == 2",
        "self.a == 1 && 'b' in self",
        "self . b == 2",
    ],
)
def test_a_rule_sees_all_fields_of_a_map_however_it_looks_at_them(rule: str) -> None:
    value = {
        "type": "object",
        "additionalProperties": INTEGER,
        "x-kubernetes-validations": [{"rule": rule}],
    }
    schema = {"type": "object", "properties": {"spec": value}}
    assert judged(schema, {"a": 1, "b": 2}) == []


def test_true_in_the_place_of_one_is_a_change() -> None:
    """Else a rule would not be asked about what it was never asked about."""
    anything = {"x-kubernetes-preserve-unknown-fields": True}
    schema = ruled({"rule": "self.n < 3", "message": "small"}, n=INTEGER, more=anything)
    old = {"n": 4, "more": [{"b": 1, "a": 1.0}]}
    assert judged(schema, {"n": 4, "more": [{"a": 1, "b": 1}]}, old) == []
    assert judged(schema, {"n": 4, "more": [{"b": True, "a": 1.0}]}, old) != []


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("FieldValueForbidden", "spec: Forbidden: no"),
        ("FieldValueRequired", "spec: Required value: no"),
        ("FieldValueDuplicate", 'spec: Duplicate value: "object"'),
        ("FieldValueInvalid", 'spec: Invalid value: "object": no'),
    ],
)
def test_a_rule_chooses_the_reason(reason: str, text: str) -> None:
    schema = ruled({"rule": "false", "message": "no", "reason": reason})
    (cause,) = evaluate(schema, {"spec": {}}, None)
    assert str(cause) == text
    assert cause.reason == reason


def test_a_transition_rule_is_only_asked_about_transitions() -> None:
    schema = ruled({"rule": "self.a == oldSelf.a", "message": "immutable"}, a=INTEGER)
    assert judged(schema, {"a": 1}) == []
    assert judged(schema, {"a": 1}, {"a": 1}) == []
    assert judged(schema, {"a": 2}, {"a": 1}) == ['spec: Invalid value: "object": immutable']


def test_an_optional_old_self_is_asked_about_creation_too() -> None:
    rule = {"rule": "oldSelf.hasValue() || self.a == 1", "optionalOldSelf": True, "message": "1"}
    schema = ruled(rule, a=INTEGER)
    assert judged(schema, {"a": 2}) == ['spec: Invalid value: "object": 1']
    assert judged(schema, {"a": 2}, {"a": 1}) == []


def test_what_did_not_change_is_not_held_to_a_new_rule() -> None:
    inner = {**ruled("self.a > 1", a=INTEGER)["properties"]["spec"]}
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"x": inner, "y": INTEGER}}},
    }
    assert judged(schema, {"x": {"a": 0}, "y": 2}, {"x": {"a": 0}, "y": 1}) == []
    assert judged(schema, {"x": {"a": -1}, "y": 1}, {"x": {"a": 0}, "y": 1}) != []


def test_items_of_a_map_list_keep_their_old_selves_when_they_move() -> None:
    item = {
        "type": "object",
        "properties": {"name": STRING, "v": INTEGER},
        "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v", "message": "shrinks"}],
    }
    items = {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"l": items}}},
    }
    old = {"l": [{"name": "a", "v": 1}, {"name": "b", "v": 5}]}
    assert judged(schema, {"l": [{"name": "b", "v": 5}, {"name": "a", "v": 1}]}, old) == []
    assert judged(schema, {"l": [{"name": "c", "v": 0}, {"name": "b", "v": 4}]}, old) == [
        'spec.l[1]: Invalid value: "object": shrinks'
    ]


def test_a_rule_that_fails_to_run_counts_against_the_value() -> None:
    schema = ruled(
        "self.a > 1", {"rule": "1 / self.z == 1", "message": "div"}, a=INTEGER, z=INTEGER
    )
    found = judged(schema, {"z": 0})
    assert found[0] == ('spec: Invalid value: "object": no such key: a evaluating rule: self.a > 1')
    assert "evaluating rule: div" in found[1]


def test_a_rule_at_the_root_sees_name_but_no_other_metadata() -> None:
    rules = [{"rule": "self.metadata.name == 'x' && !has(self.metadata.labels)"}]
    schema = {"type": "object", "x-kubernetes-validations": rules, "properties": {}}
    value = {"metadata": {"name": "x", "labels": {"a": "b"}}}
    assert evaluate(schema, value, None) == []


def test_rules_of_map_values_are_placed_by_key() -> None:
    value = {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0", "message": "p"}]}
    schema = {
        "type": "object",
        "properties": {"m": {"type": "object", "additionalProperties": value}},
    }
    assert evaluate(schema, {"m": {"k": 0}}, None) == [
        Cause("m[k]", "FieldValueInvalid", 'Invalid value: "integer": p')
    ]


@pytest.mark.parametrize(
    ("rule", "field", "words"),
    [
        ("self.a +", "rule", "compilation failed"),
        ("self.zz > 1", "rule", "undefined field 'zz'"),
        ("self.l.all(x, x.zz > 1)", "rule", "undefined field 'zz'"),
        ("self.l.filter(x, x.b > 1)[0].zz > 1", "rule", "undefined field 'zz'"),
        ("foo(self)", "rule", "undeclared reference to 'foo'"),
        ("y > 1", "rule", "undeclared reference to 'y'"),
        ("self.a", "rule", "must evaluate to a boolean"),
        ("", "rule", "Required value: rule is not specified"),
        ({"rule": "has(self.a)", "messageExpression": "1 +"}, "messageExpression",
         "messageExpression compilation failed"),
        ({"rule": "has(self.a)", "messageExpression": "self.a"}, "messageExpression",
         "must evaluate to a string"),
        ({"rule": "has(self.a)", "optionalOldSelf": True}, "optionalOldSelf",
         "may not be set if oldSelf is not used in rule"),
        ({"rule": "has(self.a)", "reason": "x"}, "reason", 'Unsupported value: "x"'),
        ({"rule": "has(self.a)", "fieldPath": ".zz"}, "fieldPath", "must be a valid path"),
        ({"rule": "has(self.a)", "message": "a\nb"}, "message", "must not contain line breaks"),
        ("self.a ==\n 1", "message", "must be specified if rule contains line breaks"),
    ],
)  # fmt: skip
def test_a_rule_that_cannot_be_is_refused_with_its_place(rule: Any, field: str, words: str) -> None:
    item = {"type": "object", "properties": {"b": INTEGER}}
    schema = ruled(rule, a=INTEGER, l={"type": "array", "items": item})
    (cause,) = compile_rules(schema, at="spec.validation.openAPIV3Schema")
    place = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0]"
    assert cause.field == f"{place}.{field}"
    assert words in cause.message


def test_old_self_needs_a_place_that_can_be_found_again() -> None:
    item = {"type": "integer", "x-kubernetes-validations": [{"rule": "self > oldSelf"}]}
    schema = {"type": "object", "properties": {"l": {"type": "array", "items": item}}}
    (cause,) = compile_rules(schema, at="s")
    assert cause.field == "s.properties[l].items.x-kubernetes-validations[0].rule"
    assert cause.message.endswith("uncorrelatable portion of the schema within s.properties[l]")


def test_a_message_that_joins_texts_of_its_own_is_too_dear() -> None:
    """A real API server refused such a definition: how long written texts are it does not know."""
    expression = "'not: ' + ['a', 'b'].filter(x, x in self.m).join(', ')"
    rule = {"rule": "!['a', 'b'].exists(x, x in self.m)", "messageExpression": expression}
    schema = ruled(rule, m={"type": "object", "additionalProperties": STRING})
    found, *_ = cost_problems(schema, "schema")
    assert str(found.field).endswith(".x-kubernetes-validations[0].messageExpression")
    assert "estimated messageExpression cost exceeds budget" in found.message
    plain = ruled(rule["rule"], m={"type": "object", "additionalProperties": STRING})
    assert not list(cost_problems(plain, "schema"))


def test_a_rule_that_makes_a_huge_list_fails_instead_of_filling_the_memory() -> None:
    (found,) = judged(ruled("lists.range(self.n).size() > 0", n=INTEGER), {"n": 10**12})
    assert "cost limit exceeded" in found
    assert judged(ruled("lists.range(self.n).size() == 5", n=INTEGER), {"n": 5}) == []


def test_what_rules_said_is_remembered_for_the_same_values_under_the_same_rules_alone() -> None:
    grows = ruled("self.n >= oldSelf.n", n=INTEGER)
    falls = ruled("self.n <= oldSelf.n", n=INTEGER)
    for _ in range(2):
        assert judged(grows, {"n": 2}, {"n": 1}) == []
        assert len(judged(grows, {"n": 1}, {"n": 2})) == 1
        assert judged(grows, {"n": 1}) == []
        assert len(judged(falls, {"n": 2}, {"n": 1})) == 1
        assert judged(falls, {"n": 1}, {"n": 2}) == []


def test_a_schema_that_is_gone_answers_for_no_other() -> None:
    """Each schema may be made where another one was before."""
    for turn in range(1500):
        found = judged(ruled(f"self.n >= {turn % 3}", n=INTEGER), {"n": 1})
        assert bool(found) == (turn % 3 > 1), turn
