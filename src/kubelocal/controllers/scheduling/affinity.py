"""Affinity and spread: rules of pods about labels of nodes and about other pods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from kubelocal.controllers.engine.view import Obj, labels_match

__all__ = [
    "Placed",
    "affinity_limitation",
    "node_affinity_holds",
    "preference",
    "spread_limitation",
]


class Placed(Struct, frozen=True):
    """All nodes, and the pods that are bound to them."""

    nodes: dict[str, Obj]
    pods: tuple[Obj, ...]

    @classmethod
    def of(cls, nodes: Sequence[Obj], pods: Sequence[Obj]) -> Placed:
        """Index nodes by name."""
        return cls({n["metadata"]["name"]: n for n in nodes}, tuple(pods))

    def domain(self, pod: Obj, key: str) -> str | None:
        """Return the value of a topology key at the node of a pod."""
        node = self.nodes.get(pod["spec"].get("nodeName", ""))
        return None if node is None else _label(node, key)


def _label(obj: Obj, key: str) -> str | None:
    value = (obj["metadata"].get("labels") or {}).get(key)
    return None if value is None else str(value)


def node_affinity_holds(spec: Obj, node: Obj) -> bool:
    """Return whether a node satisfies what a pod requires of nodes."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(_node_term_holds(t, node) for t in required["nodeSelectorTerms"])


def _node_term_holds(term: Obj, node: Obj) -> bool:
    labels = node["metadata"].get("labels") or {}
    fields = {"metadata.name": node["metadata"]["name"]}
    by_labels = {"matchExpressions": term.get("matchExpressions") or []}
    by_fields = {"matchExpressions": term.get("matchFields") or []}
    return labels_match(by_labels, labels) and labels_match(by_fields, fields)


def _terms(pod: Obj, kind: str) -> list[Obj]:
    affinity = (pod["spec"].get("affinity") or {}).get(kind) or {}
    return list(affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or [])


def _selects(term: Obj, owner: Obj, other: Obj) -> bool:
    """Return whether an affinity term of one pod selects another pod."""
    home = owner["metadata"]["namespace"]
    namespaces = term.get("namespaces") or ([home] if "namespaceSelector" not in term else None)
    if namespaces is not None and other["metadata"]["namespace"] not in namespaces:
        return False
    return labels_match(term.get("labelSelector"), other["metadata"].get("labels"))


def affinity_limitation(pod: Obj, node: Obj, cluster: Placed) -> str | None:
    """Return why pod affinity or anti-affinity forbids a node, or None."""
    for term in _terms(pod, "podAffinity"):
        peers = [p for p in cluster.pods if _selects(term, pod, p)]
        here = _label(node, term["topologyKey"])
        near = any(cluster.domain(p, term["topologyKey"]) == here for p in peers)
        first = not peers and _selects(term, pod, pod)
        if here is None or not (near or first):
            return "node(s) didn't match pod affinity rules"
    for term in _terms(pod, "podAntiAffinity"):
        if _conflicts(term, pod, node, cluster):
            return "node(s) didn't match pod anti-affinity rules"
    for other in cluster.pods:
        for term in _terms(other, "podAntiAffinity"):
            here = _label(node, term["topologyKey"])
            there = cluster.domain(other, term["topologyKey"])
            if here is not None and here == there and _selects(term, other, pod):
                return "node(s) didn't satisfy existing pods anti-affinity rules"
    return None


def _conflicts(term: Obj, pod: Obj, node: Obj, cluster: Placed) -> bool:
    here = _label(node, term["topologyKey"])
    return here is not None and any(
        cluster.domain(other, term["topologyKey"]) == here and _selects(term, pod, other)
        for other in cluster.pods
    )


def _spread(pod: Obj, constraint: Obj, cluster: Placed) -> dict[str, int]:
    """Count the matching pods in each domain of a spread constraint."""
    key = constraint["topologyKey"]
    counts = {
        value: 0
        for node in cluster.nodes.values()
        if (value := _label(node, key)) is not None and _counts(pod, node)
    }
    for other in cluster.pods:
        value = cluster.domain(other, key)
        same = other["metadata"]["namespace"] == pod["metadata"]["namespace"]
        leaving = "deletionTimestamp" in other["metadata"]
        labels = other["metadata"].get("labels")
        if value in counts and same and not leaving:
            counts[value] += labels_match(_selector(pod, constraint), labels)
    return counts


def _selector(pod: Obj, constraint: Obj) -> Obj | None:
    selector = constraint.get("labelSelector")
    keys = constraint.get("matchLabelKeys") or ()
    if selector is None or not keys:
        return selector
    labels = pod["metadata"].get("labels") or {}
    own = {k: labels[k] for k in keys if k in labels}
    return {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **own}}


def _counts(pod: Obj, node: Obj) -> bool:
    """Return whether a node is one the pod could go to at all (spread honours node affinity)."""
    wanted = pod["spec"].get("nodeSelector") or {}
    labels = node["metadata"].get("labels") or {}
    return wanted.items() <= labels.items() and node_affinity_holds(pod["spec"], node)


def _constraints(pod: Obj, when: str) -> Iterator[Obj]:
    for constraint in pod["spec"].get("topologySpreadConstraints") or ():
        if constraint.get("whenUnsatisfiable", "DoNotSchedule") == when:
            yield constraint


def spread_limitation(pod: Obj, node: Obj, cluster: Placed) -> str | None:
    """Return why a hard topology spread constraint forbids a node, or None."""
    for constraint in _constraints(pod, "DoNotSchedule"):
        here = _label(node, constraint["topologyKey"])
        if here is None:
            return "node(s) didn't match pod topology spread constraints (missing required label)"
        counts = _spread(pod, constraint, cluster)
        own = labels_match(_selector(pod, constraint), pod["metadata"].get("labels"))
        if counts.get(here, 0) + own - min(counts.values(), default=0) > constraint["maxSkew"]:
            return "node(s) didn't match pod topology spread constraints"
    return None


def preference(pod: Obj, node: Obj, cluster: Placed) -> float:
    """Return the score of a node for a pod, by its preferred rules."""
    score = 0.0
    affinity = pod["spec"].get("affinity") or {}
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    for wish in (affinity.get("nodeAffinity") or {}).get(preferred) or ():
        score += wish["weight"] * _node_term_holds(wish["preference"], node)
    for sign, kind in ((1, "podAffinity"), (-1, "podAntiAffinity")):
        for wish in (affinity.get(kind) or {}).get(preferred) or ():
            score += sign * wish["weight"] * _conflicts(wish["podAffinityTerm"], pod, node, cluster)
    for constraint in _constraints(pod, "ScheduleAnyway"):
        here = _label(node, constraint["topologyKey"])
        counts = _spread(pod, constraint, cluster)
        score -= 10.0 * (counts.get(here, 0) if here is not None else len(cluster.pods))
    return score
