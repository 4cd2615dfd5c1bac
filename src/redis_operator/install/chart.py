"""The Helm chart, made from the same objects as every other installation. Pure.

Objects are made with marks in place of what values choose; the marks become template expressions.
What depends on a list (watched namespaces) is made for one mark and repeated by the template.
"""

from __future__ import annotations

import json
from typing import Any, Final

from redis_operator import __version__

from .inventory import item_of
from .objects import Object, Stage, stages
from .options import Options
from .rendering import to_stream, to_yaml

__all__ = ["chart", "schema", "values"]

_NAMESPACE: Final = "mark-namespace"
_WATCHED: Final = "mark-watched"
_IMAGE: Final = "mark-image"
_POLICY: Final = "mark-policy"
_ARGUMENT: Final = "mark-argument"
_REPLICAS: Final = 7
_MARKED: Final = Options(
    namespace=_NAMESPACE,
    image=_IMAGE,
    pull_policy=_POLICY,
    replicas=_REPLICAS,
    arguments=(_ARGUMENT,),
    resources={},
)
_EXPRESSIONS: Final = {
    _NAMESPACE: "{{ .Release.Namespace | quote }}",
    _WATCHED: "{{ $namespace | quote }}",
    _IMAGE: '"{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"',
    _POLICY: "{{ .Values.image.pullPolicy }}",
}


def values() -> dict[str, Any]:
    """Return the values that are used unless others are given: those of `install`."""
    default = Options()
    name, _, _ = default.image.rpartition(":")
    return {
        "image": {"repository": name, "tag": "", "pullPolicy": default.pull_policy},
        "imagePullSecrets": [],
        "replicas": default.replicas,
        "watchNamespaces": [],
        "arguments": [],
        "resources": {part: dict(amounts) for part, amounts in default.resources.items()},
        "crds": {"install": True},
        "admission": {"install": True},
    }


def schema() -> dict[str, Any]:
    """Return what values may be; a wrong one is refused before anything is written."""
    name = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}
    switch = {
        "type": "object",
        "additionalProperties": False,
        "properties": {"install": {"type": "boolean"}},
    }
    amounts = {
        "type": "object",
        "additionalProperties": {"type": ["string", "integer", "number"]},
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "image": {
                "type": "object",
                "additionalProperties": False,
                "required": ["repository"],
                "properties": {
                    "repository": {"type": "string", "minLength": 1},
                    "tag": {"type": "string", "description": "the chart's own version if empty"},
                    "pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
                },
            },
            "imagePullSecrets": {
                "type": "array",
                "items": name,
                "description": "Secrets that the image is pulled with",
            },
            "replicas": {
                "type": "integer",
                "minimum": 1,
                "maximum": 10,
                "description": "pods, of which one leads",
            },
            "watchNamespaces": {
                "type": "array",
                "items": name,
                "uniqueItems": True,
                "description": "namespaces whose databases are looked after; none: all",
            },
            "arguments": {
                "type": "array",
                "items": {"type": "string"},
                "description": "more of them for `redis-operator run`",
            },
            "resources": {
                "type": "object",
                "additionalProperties": False,
                "properties": {"requests": amounts, "limits": amounts},
            },
            "crds": switch,
            "admission": switch,
            "global": {"type": "object"},
        },
    }


def chart() -> dict[str, str]:
    """Return every file of the chart by its path."""
    parts = stages(_MARKED)
    watched = stages(Options(namespace=_NAMESPACE, watch_namespaces=(_WATCHED,)))[Stage.RIGHTS]
    everywhere = parts[Stage.RIGHTS]
    alike = [made for made in everywhere if made in watched]
    here = [made for made in watched if made["metadata"].get("namespace") == _WATCHED]
    narrow = [made for made in watched if made not in alike and made not in here]
    wide = [made for made in everywhere if made not in alike]
    return {
        "Chart.yaml": to_yaml(_about()),
        "values.yaml": to_yaml(values()),
        "values.schema.json": json.dumps(schema(), indent=2) + "\n",
        "templates/crds.yaml": _when(".Values.crds.install", map(_kept, parts[Stage.DEFINITIONS])),
        "templates/rights.yaml": _marked(alike)
        + "{{- if .Values.watchNamespaces }}\n"
        + _marked(narrow)
        + "{{- range $namespace := .Values.watchNamespaces }}\n"
        + _marked(here).replace(".Release", "$.Release")
        + "{{- end }}\n{{- else }}\n"
        + _marked(wide)
        + "{{- end }}\n",
        "templates/configuration.yaml": _marked(parts[Stage.CONFIGURATION]),
        "templates/deployment.yaml": _deployment(parts[Stage.CONTROLLER]),
        "templates/admission.yaml": _when(
            'and .Values.admission.install (.Capabilities.APIVersions.Has "'
            'admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy")',
            map(_kept, (made for made in parts[Stage.ADMISSION] if item_of(made).is_kept)),
        ),
        "templates/webhooks.yaml": _webhooks(parts[Stage.ADMISSION]),
        "templates/NOTES.txt": "redis-operator {{ .Chart.AppVersion }} looks after databases of "
        '{{ join ", " .Values.watchNamespaces | default "all namespaces" }}.\n'
        "Kinds and databases stay when this release is uninstalled.\n",
    }


def _webhooks(admission: list[Object]) -> str:
    """Return the webhooks, which go with the release; where namespaces are listed, of these."""
    text = _when(".Values.admission.install", [m for m in admission if not item_of(m).is_kept])
    line = "  matchPolicy: Equivalent\n"
    selected = (
        "  {{- if .Values.watchNamespaces }}\n  namespaceSelector:\n    matchExpressions:\n"
        "    - key: kubernetes.io/metadata.name\n      operator: In\n      values:\n"
        "      {{- range .Values.watchNamespaces }}\n      - {{ . | quote }}\n      {{- end }}\n"
        "  {{- end }}\n"
    )
    first, *hooks = text.split("\n- name: ")
    hooks = [
        hook.replace(line, line + selected) if "scope: Namespaced" in hook else hook
        for hook in hooks
    ]
    return "\n- name: ".join([first, *hooks])


def _about() -> dict[str, Any]:
    return {
        "apiVersion": "v2",
        "name": "redis-operator",
        "description": "Run Redis and Valkey from one custom resource.",
        "type": "application",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": ">=1.26.0-0",
    }


def _kept(made: Object) -> Object:
    """Have Helm leave an object when the release goes: databases need it."""
    metadata = made["metadata"]
    annotations = {**metadata.get("annotations", {}), "helm.sh/resource-policy": "keep"}
    return {**made, "metadata": {**metadata, "annotations": annotations}}


def _when(condition: str, made: Any) -> str:
    return f"{{{{- if {condition} }}}}\n{_marked(list(made))}{{{{- end }}}}\n"


def _marked(made: list[Object]) -> str:
    """Return objects as text, with expressions where there were marks."""
    text = to_stream(made)
    for mark, expression in _EXPRESSIONS.items():
        text = text.replace(mark, expression)
    return text


def _deployment(made: list[Object]) -> str:
    """Return the Deployment, with what is a list or a mapping written by the template."""
    text = _marked(made)
    lines = {
        f"  replicas: {_REPLICAS}\n": "  replicas: {{ .Values.replicas }}\n",
        f"        - {_ARGUMENT}\n": "        {{- range .Values.arguments }}\n"
        "        - {{ . | quote }}\n        {{- end }}\n",
        "          value: ''\n": "          value: "
        '{{ join "," .Values.watchNamespaces | quote }}\n',
        "        resources: {}\n": "        resources:\n"
        "          {{- toYaml .Values.resources | nindent 10 }}\n",
        "      containers:\n": "      {{- with .Values.imagePullSecrets }}\n"
        "      imagePullSecrets:\n        {{- range . }}\n        - name: {{ . | quote }}\n"
        "        {{- end }}\n      {{- end }}\n      containers:\n",
    }
    for line, written in lines.items():
        if text.count(line) != 1:
            raise ValueError(f"the Deployment has no line {line!r} that could be a template's")
        text = text.replace(line, written)
    return text
