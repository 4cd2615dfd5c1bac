"""The Helm chart, generated from the same objects as every other installation. Pure.

Objects are built with placeholders for values; the placeholders become template expressions. What
depends on a list (watched namespaces) is built for one placeholder and repeated by the template.
"""

from __future__ import annotations

import json
import re
from difflib import SequenceMatcher
from typing import Any, Final

from msgspec.structs import replace

from redis_operator import __version__
from redis_operator.api.webhooks import CONFIGURATION

from .admission import CERTIFICATE, CERTIFICATE_GROUP
from .inventory import item_of
from .objects import COMPONENT_LABEL, MONITORING_KINDS, Component, Object, Stage, stages
from .options import EVERYWHERE, Issuer, MonitoringOptions, Options
from .rendering import to_stream, to_yaml

__all__ = ["chart", "schema", "values"]

_NAMESPACE: Final = "mark-namespace"
_WATCHED: Final = "mark-watched"
_IMAGE: Final = "mark-image"
_POLICY: Final = "mark-policy"
_ARGUMENT: Final = "mark-argument"
_SCRAPER: Final = "mark-scraper"
_PAGES: Final = "mark-pages"
_ISSUER: Final = Issuer("mark-issuer", "mark-kind", "mark-group")
_MARK_LABEL: Final = "mark-label"
_REPLICAS: Final = 7
_MARKED: Final = Options(
    namespace=_NAMESPACE,
    image=_IMAGE,
    pull_policy=_POLICY,
    replicas=_REPLICAS,
    arguments=(_ARGUMENT,),
    resources={},
    monitoring=MonitoringOptions(
        labels={_MARK_LABEL: ""}, runbook_url=_PAGES, scrape_namespaces=(_SCRAPER,)
    ),
)
_WEBHOOK_PORT: Final = (
    "        - name: webhook\n          containerPort: 9443\n          protocol: TCP\n"
)
_EXPRESSIONS: Final = {
    _NAMESPACE: "{{ .Release.Namespace | quote }}",
    _WATCHED: "{{ $namespace | quote }}",
    _IMAGE: '"{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"',
    _POLICY: "{{ .Values.image.pullPolicy }}",
    _ISSUER.name: "{{ .Values.admission.issuer.name | quote }}",
    _ISSUER.kind: "{{ .Values.admission.issuer.kind | quote }}",
    _ISSUER.group: "{{ .Values.admission.issuer.group | quote }}",
}
_ASKED: Final = ".Values.admission.install"
_ISSUED: Final = ".Values.admission.issuer.name"
_MONITORED: Final = ".Values.monitoring.install"
_SECURED: Final = ".Values.monitoring.secured"


def values() -> dict[str, Any]:
    """Return the default values: those of `install`."""
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
        "admission": {
            "install": True,
            "issuer": {"name": "", "kind": "Issuer", "group": "cert-manager.io"},
        },
        "monitoring": {
            "install": default.monitoring.install,
            "labels": {},
            "runbookUrl": default.monitoring.runbook_url,
            "scrapeNamespaces": list(default.monitoring.scrape_namespaces),
            "secured": default.monitoring.secured,
        },
    }


def schema() -> dict[str, Any]:
    """Return the schema of values; a wrong value is refused before anything is written."""
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
                "description": "number of pods; one leads",
            },
            "watchNamespaces": {
                "type": "array",
                "items": name,
                "uniqueItems": True,
                "description": "namespaces whose databases are managed; none: all",
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
            "admission": _admission_schema(),
            "monitoring": _monitoring_schema(),
            "global": {"type": "object"},
        },
    }


def _admission_schema() -> dict[str, Any]:
    text = {"type": "string", "maxLength": 253}
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "install": {"type": "boolean"},
            "issuer": {
                "type": "object",
                "additionalProperties": False,
                "description": "an issuer of cert-manager that issues the certificate; without a "
                "name the operator creates its own",
                "properties": {"name": text, "kind": text, "group": text},
            },
        },
    }


def _monitoring_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "install": {
                "type": "boolean",
                "description": "ServiceMonitors and alerts where the cluster serves these kinds, "
                "and a dashboard",
            },
            "labels": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "by which a Prometheus selects ServiceMonitors and alerts",
            },
            "runbookUrl": {
                "type": "string",
                "minLength": 1,
                "description": "where people find the pages of docs/runbooks",
            },
            "scrapeNamespaces": {
                "type": "array",
                "items": {
                    "type": "string",
                    "pattern": "^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?|[*])$",
                },
                "description": "namespaces whose pods may read /metrics; *: all",
            },
            "secured": {
                "type": "boolean",
                "description": "/metrics over TLS, to accounts that may get that path",
            },
        },
    }


def chart() -> dict[str, str]:
    """Return every file of the chart by its path."""
    secured = replace(_MARKED, monitoring=replace(_MARKED.monitoring, secured=True))
    chosen, otherwise = _files(secured), _files(_MARKED)
    return {name: _choice(_SECURED, chosen[name], text) for name, text in otherwise.items()}


def _choice(condition: str, chosen: str, otherwise: str) -> str:
    """Return one text for two: lines that differ are in a condition."""
    before, after = otherwise.splitlines(keepends=True), chosen.splitlines(keepends=True)
    found: list[str] = []
    for tag, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            found += before[a:b]
            continue
        if a == b:
            found += [f"{{{{- if {condition} }}}}\n", *after[c:d]]
        elif c == d:
            found += [f"{{{{- if not {condition} }}}}\n", *before[a:b]]
        else:
            found += [f"{{{{- if {condition} }}}}\n", *after[c:d], "{{- else }}\n", *before[a:b]]
        found.append("{{- end }}\n")
    return "".join(found)


def _files(options: Options) -> dict[str, str]:
    """Return every file of the chart for one kind of metrics."""
    parts, issued = stages(options), stages(replace(options, issuer=_ISSUER))
    narrowed = replace(options, watch_namespaces=(_WATCHED,))
    watched = stages(narrowed)[Stage.RIGHTS]
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
        "templates/rights.yaml": _parted(alike, issued[Stage.RIGHTS])
        + "{{- if .Values.watchNamespaces }}\n"
        + _marked(narrow)
        + "{{- range $namespace := .Values.watchNamespaces }}\n"
        + _marked(here).replace(".Release", "$.Release")
        + "{{- end }}\n{{- else }}\n"
        + _marked(wide)
        + "{{- end }}\n",
        "templates/configuration.yaml": _parted(
            parts[Stage.CONFIGURATION], issued[Stage.CONFIGURATION]
        ),
        "templates/monitoring.yaml": _monitoring(parts[Stage.MONITORING]),
        "templates/deployment.yaml": _deployment(parts[Stage.CONTROLLER]),
        "templates/admission.yaml": _when(
            f'and {_ASKED} (.Capabilities.APIVersions.Has "'
            'admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy")',
            map(_kept, (made for made in parts[Stage.ADMISSION] if item_of(made).is_kept)),
        ),
        "templates/webhooks.yaml": _webhooks(parts[Stage.ADMISSION]),
        "templates/NOTES.txt": "redis-operator {{ .Chart.AppVersion }} reconciles the databases of "
        '{{ join ", " .Values.watchNamespaces | default "all namespaces" }}.\n'
        "Kinds and databases stay when this release is uninstalled.\n",
    }


def _webhooks(admission: list[Object]) -> str:
    """Return the webhooks, which are deleted with the release; for the namespaces that are
    listed."""
    text = _when(_ASKED, [m for m in admission if not item_of(m).is_kept])
    line = "  matchPolicy: Equivalent\n"
    selected = (
        "  {{- if .Values.watchNamespaces }}\n  namespaceSelector:\n    matchExpressions:\n"
        "    - key: kubernetes.io/metadata.name\n      operator: In\n      values:\n"
        "      {{- range .Values.watchNamespaces }}\n      - {{ . | quote }}\n      {{- end }}\n"
        "  {{- end }}\n"
    )
    named = f"metadata:\n  name: {CONFIGURATION}\n"
    source = "{{ .Release.Namespace }}/" + CERTIFICATE
    note = (
        f"  {{{{- if {_ISSUED} }}}}\n  annotations:\n"
        f'    {CERTIFICATE_GROUP}/inject-ca-from: "{source}"\n  {{{{- end }}}}\n'
    )
    text = _replaced(text, {named: named + note})
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
        "kubeVersion": ">=1.29.0-0",
    }


def _kept(made: Object) -> Object:
    """Have Helm keep an object when the release is deleted: databases need it."""
    metadata = made["metadata"]
    annotations = {**metadata.get("annotations", {}), "helm.sh/resource-policy": "keep"}
    return {**made, "metadata": {**metadata, "annotations": annotations}}


def _when(condition: str, made: Any) -> str:
    return f"{{{{- if {condition} }}}}\n{_marked(list(made))}{{{{- end }}}}\n"


def _parted(made: list[Object], issued: list[Object]) -> str:
    """Return objects as text; those of admission depending on values."""
    own = [one for one in made if _is_of_admission(one)]
    others = [one for one in issued if _is_of_admission(one)]
    always = [one for one in own if one in others]
    here = _marked([one for one in own if one not in others])
    instead = _marked([one for one in others if one not in own])
    choice = f"{{{{- if {_ISSUED} }}}}\n{instead}"
    choice += f"{{{{- else }}}}\n{here}" if here else ""
    return (
        _guarded(_marked([one for one in made if one not in own]))
        + f"{{{{- if {_ASKED} }}}}\n{_marked(always)}{choice}{{{{- end }}}}\n{{{{- end }}}}\n"
    )


def _is_of_admission(made: Object) -> bool:
    return bool(made["metadata"]["labels"][COMPONENT_LABEL] == Component.ADMISSION)


def _guarded(text: str) -> str:
    """Return text in which the NetworkPolicy of the operator's pods allows the clients in
    values."""
    narrowed = text.index("    from:\n") if "    from:\n" in text else -1
    if narrowed < 0:
        return text
    asked = "  - ports:\n    - port: webhook\n      protocol: TCP\n"
    named = (
        "    - namespaceSelector:\n        matchExpressions:\n"
        "        - key: kubernetes.io/metadata.name\n"
        f"          operator: In\n          values:\n          - {_SCRAPER}\n"
    )
    end = text.index(named) + len(named)
    listed = named.replace(
        f"          - {_SCRAPER}\n",
        "          {{- range .Values.monitoring.scrapeNamespaces }}\n"
        "          - {{ . | quote }}\n          {{- end }}\n",
    )
    some = text[narrowed:end].replace(
        named,
        f"    {{{{- if .Values.monitoring.scrapeNamespaces }}}}\n{listed}    {{{{- end }}}}\n",
    )
    condition = f'not (has "{EVERYWHERE}" .Values.monitoring.scrapeNamespaces)'
    rule = f"    {{{{- if {condition} }}}}\n{some}    {{{{- end }}}}\n"
    rest = _replaced(text[end:], {asked: f"  {{{{- if {_ASKED} }}}}\n{asked}  {{{{- end }}}}\n"})
    return text[:narrowed] + rule + rest


def _monitoring(made: list[Object]) -> str:
    """Return the dashboard, and the objects of the Prometheus Operator."""
    optional = [one for one in made if one["kind"] in MONITORING_KINDS]
    text = _marked(optional)
    for line in dict.fromkeys(re.findall(f"runbook_url: {_PAGES}/.*\n", text)):
        page = line.removeprefix(f"runbook_url: {_PAGES}/").rstrip("\n")
        base = '{{ .Values.monitoring.runbookUrl | trimSuffix "/" }}'
        text = text.replace(line, f'runbook_url: "{base}/{page}"\n')
    text = text.replace(
        f"    {_MARK_LABEL}: ''\n",
        "    {{- range $key, $value := .Values.monitoring.labels }}\n"
        "    {{ $key | quote }}: {{ $value | quote }}\n    {{- end }}\n",
    )
    everywhere = "    any: true\n"
    text = _replaced(
        text,
        {
            everywhere: "    {{- if .Values.watchNamespaces }}\n    matchNames:\n"
            "    {{- range .Values.watchNamespaces }}\n    - {{ . | quote }}\n    {{- end }}\n"
            f"    {{{{- else }}}}\n{everywhere}    {{{{- end }}}}\n"
        },
    )
    served = '(.Capabilities.APIVersions.Has "monitoring.coreos.com/v1/ServiceMonitor")'
    dashboard = _when(_MONITORED, [one for one in made if one not in optional])
    return f"{dashboard}{{{{- if and {_MONITORED} {served} }}}}\n{text}{{{{- end }}}}\n"


def _marked(made: list[Object]) -> str:
    """Return objects as text, with expressions where there were marks.

    Braces of Prometheus or Grafana are escaped for Helm.
    """
    text = re.sub(r"\{\{|\}\}", lambda found: f'{{{{ "{found[0]}" }}}}', to_stream(made))
    text = text.replace(f".{_NAMESPACE}.", ".{{ .Release.Namespace }}.")  # inside of a name
    for mark, expression in _EXPRESSIONS.items():
        text = text.replace(mark, expression)
    return text


def _deployment(made: list[Object]) -> str:
    """Return the Deployment, with lists and mappings written by the template."""
    words = "        - --webhook-port\n        - '9443'\n"
    issued = (
        f"        {{{{- if {_ISSUED} }}}}\n        - --webhook-certificate=issued\n"
        "        {{- end }}\n"
    )
    asked = {words: words + issued, _WEBHOOK_PORT: _WEBHOOK_PORT}
    lines = {
        part: f"        {{{{- if {_ASKED} }}}}\n{more}        {{{{- end }}}}\n"
        for part, more in asked.items()
    } | {
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
    return _replaced(_marked(made), lines)


def _replaced(text: str, lines: dict[str, str]) -> str:
    """Return text with lines that templates write; each occurs once."""
    for line, written in lines.items():
        if text.count(line) != 1:
            raise ValueError(f"there is no line {line!r} that could be a template's")
        text = text.replace(line, written)
    return text
