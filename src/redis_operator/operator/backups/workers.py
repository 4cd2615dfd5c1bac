"""The workers of backups as the caches show them: Jobs, pods and termination messages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime

import msgspec
from msgspec import Struct

from kubecontroller import Caches, Key, Manager, controller_of
from kubecontroller.client.objects import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    ConfigMap,
    Deployment,
    Job,
    Pod,
    Terminated,
)
from redis_operator.backup.task import (
    ARCHIVE_PORT,
    PROGRESS_PORT,
    ArchiverReport,
    Report,
    WorkerProgress,
    read_report,
)
from redis_operator.manifests.names import ARCHIVE_LABEL, WORKER_LABEL
from redis_operator.manifests.replacing_workers import RESTORE_LABEL
from redis_operator.manifests.workers import (
    ATTEMPT_LABEL,
    BACKUP_LABEL,
    BACKUP_UID_LABEL,
    WORKER_CONTAINER,
    delete_job_name,
    point_job_name,
)
from redis_operator.planning.backups.attempts import State, Worker

__all__ = [
    "Workers",
    "ask_archiver",
    "ask_progress",
    "ended_before",
    "final_message",
    "host_of",
    "is_controlled_by",
    "made_since",
    "waiting",
]

_ASK_SECONDS = 1.0
_LONGEST = 1000
_LONGEST_STATE = 4 << 20


class Workers(Struct, frozen=True):
    """Jobs and pods of all workers of one operator."""

    jobs: Caches[Job]
    pods: Caches[Pod]
    archivers: Caches[Deployment]
    sources: Caches[ConfigMap]

    @classmethod
    def of(cls, manager: Manager, namespaces: Iterable[str]) -> Workers:
        """Return the caches, bounded by label."""
        chosen = tuple(namespaces)
        return cls(
            manager.caches(JOBS, namespaces=chosen, labels=WORKER_LABEL),
            manager.caches(PODS, namespaces=chosen, labels=WORKER_LABEL),
            manager.caches(DEPLOYMENTS, namespaces=chosen, labels=ARCHIVE_LABEL, optional=True),
            manager.caches(CONFIG_MAPS, namespaces=chosen, labels=ARCHIVE_LABEL),
        )

    def archiver_pods(self, key: Key) -> list[Pod]:
        """Return the pods that archive for a schedule, the newest first."""
        found = [
            pod
            for pod in self.pods
            if pod.metadata.namespace == key[0]
            and pod.metadata.label(ARCHIVE_LABEL) == key[1]
            and not pod.metadata.is_deleting
            and pod.status.phase not in ("Succeeded", "Failed")
        ]
        return sorted(found, key=lambda pod: str(pod.metadata.creation_timestamp), reverse=True)

    def job(self, key: Key) -> Job | None:
        """Return a Job by its name."""
        return self.jobs.get(key)

    def pods_of(self, job: Job) -> list[Pod]:
        """Return the pods of a Job."""
        return [
            pod
            for pod in self.pods
            if pod.metadata.namespace == job.metadata.namespace
            and (owner := controller_of(pod.metadata)) is not None
            and owner.uid == job.metadata.uid
        ]

    def of_backup(self, key: Key, uid: str, kind: str = "backup") -> tuple[Worker, ...]:
        """Return every attempt to take a backup, or (`verify`) to verify it."""
        return tuple(
            _worker(job, self.pods_of(job))
            for job in self.jobs
            if job.metadata.namespace == key[0]
            and job.metadata.label(BACKUP_LABEL) == key[1]
            and job.metadata.label(WORKER_LABEL) == kind
            and (owner := controller_of(job.metadata)) is not None
            and owner.uid == uid
        )

    def deleting(self, key: Key, uid: str) -> Worker | None:
        """Return the worker that deletes a backup from its store."""
        job = self.job((key[0], delete_job_name(key[1])))
        if job is None or job.metadata.label(BACKUP_UID_LABEL) != uid:
            return None
        return _worker(job, self.pods_of(job))

    def marking(self, key: Key, uid: str) -> Worker | None:
        """Return the worker that takes a restore point for a schedule."""
        job = self.job((key[0], point_job_name(key[1])))
        owner = controller_of(job.metadata) if job is not None else None
        if job is None or owner is None or owner.uid != uid:
            return None
        return _worker(job, self.pods_of(job))

    def living_pods(self, key: Key) -> int:
        """Return how many workers of a backup have pods that may still write."""
        return sum(
            pod.metadata.namespace == key[0]
            and pod.metadata.label(BACKUP_LABEL) == key[1]
            and pod.metadata.label(WORKER_LABEL) != "delete"
            and pod.status.phase not in ("Succeeded", "Failed")
            for pod in self.pods
        )

    def of_restore(self, job: Job, uid: str) -> Worker | None:
        """Return the worker of a Job of a restore; None: the Job has another owner."""
        return _worker(job, self.pods_of(job)) if is_controlled_by(job, uid) else None

    def others_of_restore(self, key: Key, kept: str) -> tuple[str, ...]:
        """Return the names of the Jobs of a restore, without the one with a uid."""
        return tuple(
            sorted(
                job.metadata.name
                for job in self.jobs
                if _is_of(job, key) and job.metadata.uid != kept
            )
        )

    def lives(self, key: Key, kept: str) -> bool:
        """Whether a worker of a restore may still run, or be started, by another Job."""
        if self.others_of_restore(key, kept):
            return True
        for pod in self.pods:
            owner = controller_of(pod.metadata)
            if not _is_of(pod, key) or (owner is not None and owner.uid == kept):
                continue
            states = [
                status.state.terminated
                for status in pod.status.container_statuses or ()
                if status.name == WORKER_CONTAINER
            ]
            if pod.status.phase not in ("Succeeded", "Failed") and not any(states):
                return True
        return False


def _is_of(found: Job | Pod, key: Key) -> bool:
    meta = found.metadata
    return meta.namespace == key[0] and meta.label(RESTORE_LABEL) == key[1]


def is_controlled_by(job: Job, uid: str) -> bool:
    """Whether a Job belongs to the object with a uid."""
    owner = controller_of(job.metadata)
    return owner is not None and owner.uid == uid


def _worker(job: Job, pods: list[Pod]) -> Worker:
    attempt = job.metadata.label(ATTEMPT_LABEL)
    ended = [c for c in job.status.conditions or () if c.status == "True"]
    kinds = {condition.type for condition in ended}
    state = State.ACTIVE
    if "Complete" in kinds:
        state = State.SUCCEEDED
    elif "Failed" in kinds:
        state = State.FAILED
    times = [c.last_transition_time for c in ended if c.last_transition_time is not None]
    report, words = final_message(pods)
    over = _worker_container(pods)
    if state is State.ACTIVE and over is not None:  # its sidecar may still run
        state = State.FAILED if over.exit_code else State.SUCCEEDED
        times = [over.finished_at] if over.finished_at is not None else []
    trouble = ""
    if state is State.ACTIVE:
        trouble = waiting(pods)
    elif report is None:
        message = next((c.message for c in ended if c.type == "Failed"), "")
        trouble = words or message
    return Worker(
        attempt=int(attempt) if attempt.isdecimal() else 0,
        job=job.metadata.name,
        state=state,
        report=report,
        trouble=trouble,
        ended=max(times, default=None) if state is not State.ACTIVE else None,
        host=host_of(pods) if state is State.ACTIVE else "",
        made=made_since(pods) if state is State.ACTIVE else None,
    )


def made_since(pods: Iterable[Pod]) -> datetime | None:
    """Return since when a worker's containers are being created; None: one is, or no pod is."""
    for pod in pods:
        states = [status.state for status in pod.status.container_statuses or ()]
        if not any(state.running or state.terminated for state in states):
            return pod.metadata.creation_timestamp
    return None


def host_of(pods: Iterable[Pod]) -> str:
    """Return the address of a worker that runs."""
    for pod in pods:
        states = [status.state.running for status in pod.status.container_statuses or ()]
        if any(states) and not pod.metadata.is_deleting:
            return pod.status.pod_ip
    return ""


async def ask_progress(host: str) -> WorkerProgress | None:
    """Ask a worker for its progress; None: it cannot be asked, and nothing depends on it."""
    writer = None
    try:
        async with asyncio.timeout(_ASK_SECONDS):
            reader, writer = await asyncio.open_connection(host, PROGRESS_PORT)
            return msgspec.json.decode(await reader.read(_LONGEST), type=WorkerProgress)
    except (OSError, TimeoutError, msgspec.DecodeError):
        return None
    finally:
        if writer is not None:
            writer.close()


async def ask_archiver(host: str) -> dict[str, ArchiverReport] | None:
    """Ask a worker that archives for the state of each shard; None: it did not respond."""
    writer = None
    try:
        async with asyncio.timeout(_ASK_SECONDS):
            reader, writer = await asyncio.open_connection(host, ARCHIVE_PORT)
            writer.write(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            answer = await reader.read(_LONGEST_STATE)
            body = answer.partition(b"\r\n\r\n")[2]
            return msgspec.json.decode(body, type=dict[str, ArchiverReport])
    except (OSError, TimeoutError, msgspec.DecodeError):
        return None
    finally:
        if writer is not None:
            writer.close()


def _worker_container(pods: Iterable[Pod]) -> Terminated | None:
    """Return how the worker of a pod with a sidecar ended."""
    for pod in pods:
        found = pod.status.container_statuses or ()
        for status in found:
            if len(found) > 1 and status.name == WORKER_CONTAINER:
                return status.state.terminated
    return None


def final_message(pods: Iterable[Pod]) -> tuple[Report | None, str]:
    """Return the final message of a worker: as a report, or else the end of its log."""
    words = ""
    for pod in pods:
        for status in pod.status.container_statuses or ():
            ended = status.state.terminated
            if ended is None or status.name != WORKER_CONTAINER:
                continue
            report = read_report(ended.message)
            if report is not None:
                return report, ""
            words = ended.message[-300:] or f"{ended.reason} (exit code {ended.exit_code})"
    return None, words


def ended_before(pods: Iterable[Pod]) -> str:
    """Return why a worker that is started again ended; empty: it runs, or it has not ended."""
    for pod in pods:
        for status in pod.status.container_statuses or ():
            ended = status.state.terminated or status.last_state.terminated
            if status.name != WORKER_CONTAINER or status.state.running or ended is None:
                continue
            report = read_report(ended.message)
            if report is not None and report.error:
                return report.error
            return ended.message[-300:] or f"{ended.reason} (exit code {ended.exit_code})"
    return ""


def waiting(pods: Iterable[Pod]) -> str:
    """Return why a worker does not start; empty: it runs, or it is not known."""
    for pod in pods:
        for condition in pod.status.conditions or ():
            if condition.type == "PodScheduled" and condition.status == "False":
                return f"{pod.metadata.name} has no node: {condition.message}"
        for status in pod.status.container_statuses or ():
            held = status.state.waiting
            if held is not None and held.reason not in ("", "ContainerCreating", "PodInitializing"):
                return f"{pod.metadata.name} waits: {held.reason} {held.message}".strip()
    return ""
