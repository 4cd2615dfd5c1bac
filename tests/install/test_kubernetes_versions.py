"""What is installed is known to the oldest Kubernetes that docs/install.md names, or optional."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from redis_operator.install.chart import chart
from redis_operator.install.managed.objects import installer_objects
from redis_operator.install.objects import OPTIONAL_KINDS, objects
from redis_operator.install.options import Issuer, MonitoringOptions, Options

OLDEST: Final = 29
ISSUED = Options(
    watch_namespaces=("team",),
    issuer=Issuer("internal"),
    monitoring=MonitoringOptions(install=True),
)
MADE = [*objects(Options()), *objects(ISSUED), *installer_objects(Options())]
SINCE: Final = {
    "v1": 0,
    "apps/v1": 9,
    "rbac.authorization.k8s.io/v1": 8,
    "networking.k8s.io/v1": 7,
    "apiextensions.k8s.io/v1": 16,
    "policy/v1": 21,
    "admissionregistration.k8s.io/v1": 16,
    "monitoring.coreos.com/v1": 0,  # the Prometheus Operator's
    "cert-manager.io/v1": 0,  # only where an issuer is named
}
"""The minor version of Kubernetes that first served them."""
LATER: Final = {"ValidatingAdmissionPolicy": 30, "ValidatingAdmissionPolicyBinding": 30}
NEW_IN_CEL: Final = {
    r"\bquantity\(|isQuantity\(": 29,
    r"\.\?|\[\?|optional\.": 29,
    r"\bsets\.": 30,
    r"\bip\(|\bcidr\(|isIP\(|isCIDR\(": 31,
    r"\bformat\.|\.validate\(": 32,
}
"""What a server takes in new rules: one version after the one that brought it."""


def test_every_kind_is_old_enough_or_optional() -> None:
    for made in MADE:
        kind = made["kind"]
        assert SINCE[made["apiVersion"]] <= OLDEST, kind
        assert LATER.get(kind, 0) <= OLDEST or kind in OPTIONAL_KINDS, kind


def strings(value: Any) -> Iterator[str]:
    """Return every CEL rule in a definition."""
    if isinstance(value, dict):
        for name, member in value.items():
            if name == "x-kubernetes-validations":
                yield from (rule["rule"] for rule in member)
                assert not any("optionalOldSelf" in rule for rule in member), "Kubernetes 1.29"
            else:
                yield from strings(member)
    if isinstance(value, list | tuple):
        for member in value:
            yield from strings(member)


def test_rules_of_the_definitions_call_nothing_that_came_later() -> None:
    found = [rule for made in MADE for rule in strings(made)]
    assert len(found) > 20
    for rule in found:
        text = re.sub(r"'[^']*'|\"[^\"]*\"", "", rule)
        late = [since for call, since in NEW_IN_CEL.items() if re.search(call, text)]
        assert all(since <= OLDEST for since in late), rule


def test_webhooks_have_no_field_that_an_older_server_would_drop() -> None:
    for made in MADE:
        for hook in made.get("webhooks", ()):
            assert "matchConditions" not in hook, "Kubernetes 1.28"


def test_the_docs_and_the_chart_name_the_same_version() -> None:
    text = Path("docs/install.md").read_text()
    assert f"Requirements: Kubernetes 1.{OLDEST} or later" in text
    assert f"kubeVersion: '>=1.{OLDEST}.0-0'" in chart()["Chart.yaml"]
