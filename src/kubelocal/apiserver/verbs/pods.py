"""Subresources of pods: binding to a node, and eviction under disruption budgets."""

from __future__ import annotations

from msgspec.structs import replace

from kubecontroller import with_condition
from kubecontroller.client import Response
from kubelocal.apiserver.calls import Call, Steps
from kubelocal.apiserver.core import Core
from kubelocal.apiserver.errors import (
    StatusError,
    bad_request,
    conflict,
    forbidden,
    internal,
    not_found,
    too_many_requests,
)
from kubelocal.apiserver.format.bodies import answer_object, read_body
from kubelocal.apiserver.kinds.selectors import matches, selector_of
from kubelocal.apiserver.lifecycle.deletion import read_options
from kubelocal.apiserver.objects.metadata import timestamp
from kubelocal.apiserver.storage.entries import Object, decode
from kubelocal.apiserver.storage.store import Entry
from kubelocal.apiserver.verbs.delete import Remover

__all__ = ["Pods"]

_BUDGETS = "poddisruptionbudgets.policy"
_CANNOT = "Cannot evict pod as it would violate the pod's disruption budget."
_MAX_DISRUPTED = 2000


def _done(call: Call) -> Response:
    status: Object = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": 201,
    }
    return answer_object(201, status, call)


class Pods:
    """Binds and evicts pods."""

    def __init__(self, core: Core, remover: Remover) -> None:
        self._core = core
        self._remover = remover

    def bind(self, call: Call) -> Response:
        """Bind a pod to a node, once."""
        binding, _ = read_body(call)
        target = binding.get("target") or {}
        name = call.name or (binding.get("metadata") or {}).get("name", "")
        entry = self._core.entry("pods", call.namespace, name)
        if entry is None:
            raise not_found("", "pods", name)
        if target.get("kind", "Node") not in {"", "Node"} or not target.get("name"):
            raise bad_request("a binding needs a target of kind Node with a name")
        pod = decode(entry.body)
        self._check_binding(pod, binding)
        pod["spec"]["nodeName"] = target["name"]
        marks = (binding.get("metadata") or {}).get("annotations")
        if marks:
            pod["metadata"]["annotations"] = (pod["metadata"].get("annotations") or {}) | marks
        _set_condition(pod, timestamp(self._core.clock()))
        if not call.dry_run:
            self._core.put(self._core.resource("pods"), pod)
        return _done(call)

    def _check_binding(self, pod: Object, binding: Object) -> None:
        metadata = pod["metadata"]
        name = metadata["name"]
        wanted = (binding.get("metadata") or {}).get("uid")
        if wanted and wanted != metadata["uid"]:
            why = (
                f"Precondition failed: UID in precondition: {wanted}, UID in object meta:"
                f" {metadata['uid']}"
            )
            raise conflict("", "pods/binding", name, why)
        if metadata.get("deletionTimestamp"):
            why = f"pod {name} is being deleted, cannot be assigned to a host"
            raise conflict("", "pods/binding", name, why)
        node = pod["spec"].get("nodeName")
        if node:
            why = f'pod {name} is already assigned to node "{node}"'
            raise conflict("", "pods/binding", name, why)
        if pod["spec"].get("schedulingGates"):
            why = f"pod {name} has non-empty .spec.schedulingGates"
            raise conflict("", "pods/binding", name, why)

    def evict(self, call: Call) -> Steps[Response]:
        """Delete a pod if its disruption budget allows it."""
        eviction, _ = read_body(call)
        if (eviction.get("metadata") or {}).get("name", call.name) != call.name:
            raise bad_request("name in URL does not match name in Eviction object")
        options, dry = read_options(dict(eviction.get("deleteOptions") or {"dryRun": []}), {})
        is_dry = call.dry_run or dry == "All"
        entry = self._core.entry("pods", call.namespace, call.name)
        if entry is None:
            raise not_found("", "pods", call.name)
        pod = decode(entry.body)
        if not _is_free(pod):
            self._spend(call, pod, entry, is_dry=is_dry)
        whole = replace(call, subresource="")
        yield from self._remover.remove(whole, options, dry=is_dry)
        return _done(call)

    def _spend(self, call: Call, pod: Object, entry: Entry, *, is_dry: bool) -> None:
        """Take one disruption from the budget of a pod, or refuse."""
        budgets = self._budgets(entry)
        if not budgets:
            return
        if len(budgets) > 1:
            raise internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource"
                " does not support."
            )
        budget = budgets[0]
        if _may_go_unhealthy(budget, pod):
            return
        self._check_budget(budget)
        status = budget["status"]
        status["disruptionsAllowed"] -= 1
        stamp = timestamp(self._core.clock())
        status["disruptedPods"] = (status.get("disruptedPods") or {}) | {call.name: stamp}
        if not is_dry:
            self._core.put(self._core.resource(_BUDGETS), budget)

    def _check_budget(self, budget: Object) -> None:
        name, status = budget["metadata"]["name"], budget.get("status") or {}
        budget["status"] = status
        if status.get("observedGeneration", 0) < (budget["metadata"].get("generation") or 0):
            why = f"The disruption budget {name} is still being processed by the server."
            raise _refusal(why, 10)
        allowed = status.get("disruptionsAllowed", 0)
        if allowed < 0:
            raise forbidden(
                "policy", "poddisruptionbudget", name, "pdb disruptions allowed is negative"
            )
        if len(status.get("disruptedPods") or ()) > _MAX_DISRUPTED:
            raise forbidden(
                "policy",
                "poddisruptionbudget",
                name,
                "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            )
        if allowed == 0:
            raise _refusal(
                f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods"
                f" and has {status.get('currentHealthy', 0)} currently",
                0,
            )

    def _budgets(self, pod: Entry) -> list[Object]:
        found = []
        for entry in self._core.store.collection(_BUDGETS).entries.values():
            if entry.namespace != pod.namespace:
                continue
            budget = decode(entry.body)
            selector = selector_of((budget.get("spec") or {}).get("selector"))
            if selector is not None and matches(selector, pod.labels):
                found.append(budget)
        return found


def _refusal(text: str, retry_after: int) -> StatusError:
    cause = {"reason": "DisruptionBudget", "message": text}
    return too_many_requests(_CANNOT, retry_after, causes=[cause])


def _is_free(pod: Object) -> bool:
    """Return whether the loss of the pod disrupts nothing, so that no budget is checked."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in {"Succeeded", "Failed", "Pending"} or bool(
        pod["metadata"].get("deletionTimestamp")
    )


def _may_go_unhealthy(budget: Object, pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    if any(one["type"] == "Ready" and one["status"] == "True" for one in conditions):
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    wanted: int = status.get("desiredHealthy", 0)
    healthy: int = status.get("currentHealthy", 0)
    return wanted > 0 and healthy >= wanted


def _set_condition(pod: Object, now: str) -> None:
    status = pod.setdefault("status", {})
    new = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
    status["conditions"] = with_condition(status.get("conditions") or (), new, now)
