"""Wait until applied objects work, or report why they do not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from msgspec import Struct

from kubecontroller import Client, Key, Kind, Manifest, NotFound
from kubecontroller.client import definition_limitation
from kubecontroller.client.objects import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    LEASES,
    PODS,
    SECRETS,
    Deployment,
    Pod,
)
from redis_operator.api.webhooks import ISSUED_SECRET

from .objects import Object, Stage
from .rights import OPERATOR
from .workload import POD_LABELS

__all__ = [
    "NotInForce",
    "StageTimeout",
    "definition_limitation",
    "operator_pods",
    "pod_limitation",
    "rollout_limitation",
    "wait",
    "wait_for_stage",
]

_LOOK_SECONDS = 1.0
_Look = Callable[[], Awaitable[str | None]]
"""Why something does not work yet, or nothing."""
WEBHOOK_CONFIGURATIONS: Final[Kind[Manifest]] = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    False,
    dict,
)

CERTIFICATES: Final[Kind[Manifest]] = Kind(
    "cert-manager.io", "v1", "Certificate", "certificates", True, dict
)


class StageTimeout(Struct, frozen=True):
    """How long each stage may take to work, in seconds."""

    seconds: float = 300.0


class NotInForce(Exception):  # noqa: N818 - the state of affairs
    """Something was applied and does not work in time; the message says why."""

    def __init__(self, reason: str, seconds: float) -> None:
        super().__init__(
            f"not ready after {seconds:g} s: {reason}. What was done so far stays; "
            "correct it and run the same command again"
        )
        self.reason = reason


async def wait_for_stage(
    client: Client,
    stage: str,
    made: Sequence[Object],
    patience: StageTimeout,
    tell: Callable[[str], None],
) -> None:
    """Return when everything of a stage works. Raises `NotInForce`."""
    for document in made:
        if stage == Stage.CONTROLLER:
            namespace = document["metadata"]["namespace"]
            tell(f"waiting until the operator runs in namespace {namespace} ...")
        for look in _looks(client, stage, document):
            await wait(look, patience)


def _looks(client: Client, stage: str, document: Object) -> list[_Look]:
    """Return the checks that show that an object of a stage works, in order."""
    metadata = document["metadata"]
    name, namespace = metadata["name"], metadata.get("namespace", "")
    match stage, document["kind"]:
        case Stage.DEFINITIONS, _:
            return [partial(_definition, client, name)]
        case Stage.CONFIGURATION, CERTIFICATES.kind:
            return [partial(_issued, client, (namespace, name))]
        case Stage.CONTROLLER, _:
            return [partial(_rollout, client, namespace), partial(_leader, client, namespace)]
        case Stage.ADMISSION, WEBHOOK_CONFIGURATIONS.kind:
            if "annotations" in metadata:
                return [partial(_injected, client, document)]
            return [partial(_bundle, client, name)]
        case _:
            return []


async def wait(look: _Look, patience: StageTimeout) -> None:
    """Check until there is no reason to wait any more. Raises `NotInForce`, which names it."""
    clock = asyncio.get_running_loop().time
    end = clock() + patience.seconds
    while (reason := await look()) is not None:
        if clock() >= end:
            raise NotInForce(reason, patience.seconds)
        await asyncio.sleep(_LOOK_SECONDS)


async def _definition(client: Client, name: str) -> str | None:
    return definition_limitation(await client.get(CUSTOM_RESOURCE_DEFINITIONS, ("", name)))


async def _rollout(client: Client, namespace: str) -> str | None:
    found = await client.get(DEPLOYMENTS, (namespace, OPERATOR))
    reason = rollout_limitation(found)
    pods = await operator_pods(client, namespace)
    if reason is None:
        ending = sorted(pod.metadata.name for pod in pods if pod.metadata.is_deleting)
        return f"old pods are still ending: {', '.join(ending)}" if ending else None
    limitations = sorted({limitation for pod in pods if (limitation := pod_limitation(pod))})
    return "; ".join([reason, *limitations])


async def operator_pods(client: Client, namespace: str) -> Sequence[Pod]:
    """Return the operator's own pods."""
    labels = ",".join(f"{key}={value}" for key, value in POD_LABELS.items())
    page = await client.list(PODS, namespace=namespace, labels=labels)
    return page.items


def rollout_limitation(found: Deployment) -> str | None:
    """Return why a Deployment does not run exactly what was applied last."""
    name, wanted, status = found.metadata.name, found.spec.replicas or 0, found.status
    if status.observed_generation < found.metadata.generation:
        return f"Deployment {name} was not reconciled yet"
    if status.updated_replicas < wanted:
        true = {c.type: c.message for c in status.conditions or () if c.status == "True"}
        refused = f": {true['ReplicaFailure']}" if "ReplicaFailure" in true else ""
        return f"Deployment {name} has {status.updated_replicas} of {wanted} new pods{refused}"
    if status.replicas > status.updated_replicas:
        old = status.replicas - status.updated_replicas
        return f"Deployment {name} still has {old} old pods"
    if status.available_replicas < wanted:
        return f"Deployment {name} has {status.available_replicas} of {wanted} pods ready"
    return None


def pod_limitation(pod: Pod) -> str:
    """Return what keeps a pod from running, or nothing."""
    name = pod.metadata.name
    for container in pod.status.container_statuses or ():
        waiting, last = container.state.waiting, container.last_state.terminated
        if waiting is not None and waiting.reason not in {"", "ContainerCreating"}:
            ended = f" (it ended with {last.exit_code}: {last.reason})" if last else ""
            return f"pod {name}: {waiting.reason}{ended}: {waiting.message}"
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return f"pod {name} is not scheduled: {condition.message}"
    return ""


async def _bundle(client: Client, name: str) -> str | None:
    """Return why the API server cannot trust the operator yet."""
    try:
        found = await client.get(WEBHOOK_CONFIGURATIONS, ("", name))
    except NotFound:
        return f"ValidatingWebhookConfiguration {name} is not there any more"
    missing = [
        hook["name"]
        for hook in found.get("webhooks") or ()
        if not hook["clientConfig"].get("caBundle")
    ]
    if not missing:
        return None
    return f"the operator has not put its CA bundle into webhook {', '.join(missing)} yet"


async def _issued(client: Client, key: Key) -> str | None:
    """Return why an issuer has not issued a certificate yet."""
    found = await client.get(CERTIFICATES, key)
    conditions = (found.get("status") or {}).get("conditions") or ()
    ready = next((c for c in conditions if c.get("type") == "Ready"), None)
    current = (ready or {}).get("observedGeneration", 0) >= found["metadata"].get("generation", 0)
    if ready is not None and ready.get("status") == "True" and current:
        return None
    issuer = "{kind} {name}".format(**found["spec"]["issuerRef"])
    message = (ready or {}).get("message") or "cert-manager has not processed it yet; does it run?"
    return f"Certificate {key[1]} of {issuer} is not ready: {message}"


async def _injected(client: Client, document: Object) -> str | None:
    """Return whether the API server trusts what the issuer has issued."""
    service = document["webhooks"][0]["clientConfig"]["service"]
    secret = await client.get(SECRETS.plain(), (service["namespace"], ISSUED_SECRET))
    wanted = (secret.get("data") or {}).get("ca.crt")
    found = await client.get(WEBHOOK_CONFIGURATIONS, ("", document["metadata"]["name"]))
    given = {hook["clientConfig"].get("caBundle") for hook in found.get("webhooks") or ()}
    if wanted is None:
        return f"Secret {ISSUED_SECRET} has no ca.crt: use an issuer that provides its CA"
    if given == {wanted}:
        return None
    return (
        f"ValidatingWebhookConfiguration {document['metadata']['name']} does not have the CA "
        "bundle of the issuer yet; does the cainjector of cert-manager run?"
    )


async def _leader(client: Client, namespace: str) -> str | None:
    """Return why no pod that runs now is known to lead."""
    try:
        lease = await client.get(LEASES, (namespace, OPERATOR))
    except NotFound:
        return "no operator has become the leader yet"
    holder = lease.spec.holder_identity or ""
    pods = await operator_pods(client, namespace)
    names = {pod.metadata.name for pod in pods if not pod.metadata.is_deleting}
    if holder.rpartition("_")[0] not in names:
        return f"the lease is held by {holder or 'no pod'}, which is not a running pod"
    return None
