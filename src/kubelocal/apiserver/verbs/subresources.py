"""Requests on subresources, each passed to the part that implements it."""

from __future__ import annotations

from datetime import timedelta

from kubecontroller.client import Response
from kubelocal.apiserver.access.tokens import AUDIENCE, Tokens
from kubelocal.apiserver.calls import Answer, Call, Connect, Steps
from kubelocal.apiserver.causes import invalid as invalid_cause
from kubelocal.apiserver.core import Core
from kubelocal.apiserver.errors import bad_request, conflict, invalid, method_not_allowed, not_found
from kubelocal.apiserver.format.bodies import answer_object, read_body
from kubelocal.apiserver.lifecycle.deletion import is_finished
from kubelocal.apiserver.objects.metadata import timestamp
from kubelocal.apiserver.storage.entries import Object, decode
from kubelocal.apiserver.verbs.delete import Remover
from kubelocal.apiserver.verbs.pods import Pods
from kubelocal.apiserver.verbs.read import Reader
from kubelocal.apiserver.verbs.scale import Scaling
from kubelocal.apiserver.verbs.write import Writer

__all__ = ["Subresources"]

_SHORTEST, _LONGEST, _USUAL = 600, 1 << 32, 3600


class Subresources:
    """Handles requests on subresources."""

    def __init__(
        self, core: Core, reader: Reader, writer: Writer, remover: Remover, tokens: Tokens
    ) -> None:
        self._core = core
        self._reader = reader
        self._scaling = Scaling(core, writer)
        self.pods = Pods(core, remover)
        self._tokens = tokens

    def answer(self, call: Call, verb: str) -> Steps[Answer]:
        """Handle one request."""
        sub = call.resource.subresource(call.subresource)
        if sub is None or verb not in sub.verbs:
            raise method_not_allowed()
        match call.subresource:
            case "scale":
                return (yield from self._scaling.answer(call, verb))
            case "eviction":
                return (yield from self.pods.evict(call))
            case "binding":
                return self.pods.bind(call)
            case "token":
                return self._token(call)
            case "finalize":
                return self._finalize(call)
        return self._connect(call)

    def _connect(self, call: Call) -> Connect | Response:
        pod = self._core.live(call)
        spec = pod.get("spec") or {}
        wanted = call.options.get("container")
        containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        if wanted and all(one["name"] != wanted for one in containers):
            raise bad_request(f"container {wanted} is not valid for pod {call.name}")
        if call.subresource == "log" and not wanted and len(spec.get("containers") or ()) > 1:
            listed = " ".join(one["name"] for one in spec["containers"])
            raise bad_request(
                f"a container name must be specified for pod {call.name}, choose one of: [{listed}]"
            )
        if not spec.get("nodeName"):
            if call.subresource == "log":
                return Response(status=200, headers={"content-type": "text/plain"}, body=b"")
            raise bad_request(f"pod {call.name} does not have a host assigned")
        return Connect(
            subresource=call.subresource,
            namespace=call.namespace,
            name=call.name,
            pod=pod,
            query=call.request.query,
        )

    def _finalize(self, call: Call) -> Response:
        """Replace the finalizers of a namespace; without any, a terminating one is deleted."""
        given, _ = read_body(call)
        value = self._core.live(call)
        version = (given.get("metadata") or {}).get("resourceVersion")
        if version and version != value["metadata"]["resourceVersion"]:
            raise conflict("", "namespaces", call.name)
        finalizers = (given.get("spec") or {}).get("finalizers")
        value["spec"] = {"finalizers": finalizers} if finalizers else {}
        if call.dry_run:
            return self._reader.show(call, self._core.preview(call.resource, value), 200)
        act = self._core.remove if is_finished(value) else self._core.put
        return self._reader.show(call, act(call.resource, value), 200)

    def _token(self, call: Call) -> Response:
        """Issue a token for a service account."""
        given, _ = read_body(call)
        account = self._core.live(call)
        spec = given.get("spec") or {}
        seconds = spec.get("expirationSeconds") or _USUAL
        if not _SHORTEST <= seconds <= _LONGEST:
            text = (
                "may not specify a duration less than 10 minutes"
                if seconds < _SHORTEST
                else "may not specify a duration larger than 2^32 seconds"
            )
            cause = invalid_cause("spec.expirationSeconds", seconds, text)
            raise invalid("authentication.k8s.io", "TokenRequest", call.name, [cause])
        bound = spec.get("boundObjectRef")
        self._check_bound(call, bound)
        audiences = spec.get("audiences") or [AUDIENCE]
        token, end = self._tokens.issue(account, audiences=audiences, seconds=seconds, bound=bound)
        metadata = account["metadata"]
        stamp = timestamp(end - timedelta(seconds=seconds))
        answer: Object = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "creationTimestamp": stamp,
            },
            "spec": {
                "audiences": audiences,
                "expirationSeconds": seconds,
                "boundObjectRef": bound,
            },
            "status": {"token": token, "expirationTimestamp": timestamp(end)},
        }
        return answer_object(201, answer, call)

    def _check_bound(self, call: Call, bound: Object | None) -> None:
        if not bound:
            return
        collection = {"Pod": "pods", "Secret": "secrets"}.get(bound.get("kind", ""))
        if collection is None:
            raise bad_request(
                f"cannot bind token to object of type {bound.get('apiVersion')},"
                f" Kind={bound.get('kind')}"
            )
        entry = self._core.entry(collection, call.namespace, bound.get("name", ""))
        if entry is None:
            raise not_found("", collection, bound.get("name", ""))
        if bound.get("uid", entry.uid) != entry.uid:
            why = (
                f"the UID in the bound object reference ({bound['uid']}) does not match the UID in"
                f" record. The object might have been deleted and then recreated"
            )
            raise conflict("", collection, entry.name, why)
        if collection == "pods":
            wanted = (decode(entry.body).get("spec") or {}).get("serviceAccountName", "default")
            if wanted != call.name:
                raise bad_request(
                    f'cannot bind token for serviceaccount "{call.name}" to pod running with'
                    f" different serviceaccount name."
                )
        bound["uid"] = entry.uid
