"""A custom kind with a schema of every sort, for the checks of custom resources."""

from __future__ import annotations

from typing import Any

from contract.driver import Space

__all__ = ["SCALE", "SPEC", "STATUS", "make"]

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
        "mode": {"type": "string", "enum": ["Fast", "Slow"]},
        "size": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
        "step": {"type": "integer", "multipleOf": 5},
        "ratio": {"type": "number", "exclusiveMinimum": True, "minimum": 0},
        "on": {"type": "boolean"},
        "port": {"x-kubernetes-int-or-string": True},
        "when": {"type": "string", "format": "date-time"},
        "address": {"type": "string", "format": "ipv4"},
        "big": {"type": "integer", "format": "int32"},
        "tags": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
        "list": {"type": "array", "items": TEXT, "minItems": 1, "maxItems": 3},
        "plain": {"type": "array", "items": {"type": "object", "properties": {"a": TEXT}}},
        "rows": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["id"],
            "items": {
                "type": "object",
                "required": ["id"],
                "properties": {
                    "id": TEXT,
                    "value": TEXT,
                    "weight": {"type": "integer", "default": 1},
                },
            },
        },
        "whole": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {"a": TEXT, "b": TEXT},
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "labels": {"type": "object", "additionalProperties": TEXT, "maxProperties": 2},
        "nested": {
            "type": "object",
            "required": ["must"],
            "properties": {"must": TEXT, "deep": {"type": "string", "default": "d"}},
        },
        "filled": {
            "type": "object",
            "default": {},
            "properties": {"inner": {"type": "string", "default": "x"}},
        },
        "maybe": {"type": "string", "nullable": True, "default": "m"},
        "frozen": {
            "type": "string",
            "x-kubernetes-validations": [
                {"rule": "self == oldSelf", "message": "frozen cannot change"}
            ],
        },
        "shards": {"type": "integer"},
        "replicas": {"type": "integer"},
        "either": {
            "oneOf": [{"required": ["x"]}, {"required": ["y"]}],
            "type": "object",
            "properties": {"x": TEXT, "y": TEXT},
        },
    },
    "x-kubernetes-validations": [
        {
            "rule": "!has(self.shards) || self.shards >= 3",
            "message": "shards must be at least 3",
            "fieldPath": ".shards",
            "reason": "FieldValueInvalid",
        },
        {
            "rule": "!has(self.shards) || !has(self.replicas) || self.shards > self.replicas",
            "messageExpression": "'shards %d against replicas %d'"
            ".format([self.shards, self.replicas])",
        },
        {
            "rule": "!has(oldSelf.shards) || has(self.shards)",
            "message": "shards cannot be removed",
        },
    ],
}
STATUS = {
    "type": "object",
    "properties": {
        "ready": NUMBER,
        "selector": TEXT,
        "replicas": NUMBER,
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "required": ["type"],
                "properties": {"type": TEXT, "status": TEXT},
            },
        },
    },
}
SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}


def make(widgets: Space, **spec: Any) -> dict[str, Any]:
    return widgets.create("widgets", {"metadata": {"name": "a"}, "spec": spec})
