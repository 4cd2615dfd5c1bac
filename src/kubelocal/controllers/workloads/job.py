"""Job: runs pods until enough of them succeeded, or too many failed.

Each pod has a finalizer until it was counted, so that a pod deleted early still counts, and the
uids being counted are written to the status first, so that a crash in between counts no pod twice.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from kubecontroller import with_condition
from kubelocal.controllers.engine.pods import condition, is_deleting, is_ready, pod_from_template
from kubelocal.controllers.engine.view import (
    Change,
    Changes,
    Create,
    Delete,
    Obj,
    Update,
    UpdateStatus,
    View,
    controller_of,
    edited,
    parse_time,
    timestamp,
)

__all__ = ["plan"]

_TRACKING = "batch.kubernetes.io/job-tracking"
_NAME = "batch.kubernetes.io/job-name"
_BACKOFF_SECONDS, _BACKOFF_LIMIT_SECONDS = 10.0, 600.0


class _Job(Struct, frozen=True):
    obj: Obj
    pods: tuple[Obj, ...]
    now: datetime

    @property
    def uncounted(self) -> Obj:
        return (self.obj.get("status") or {}).get("uncountedTerminatedPods") or {}

    def count(self, outcome: str) -> int:
        return int((self.obj.get("status") or {}).get(outcome) or 0)

    @property
    def active(self) -> list[Obj]:
        return [p for p in self.pods if _outcome(p) is None and not is_deleting(p)]

    @property
    def parallelism(self) -> int:
        return int(self.obj["spec"].get("parallelism", 1))

    @property
    def completions(self) -> int | None:
        wanted = self.obj["spec"].get("completions")
        return None if wanted is None else int(wanted)


def plan(view: View, namespace: str, name: str, now: datetime) -> Changes:
    """Return the changes to one Job."""
    found = view.get("jobs", namespace, name)
    if found is None or is_deleting(found):
        return Changes(tuple(_released(p) for p in _left(view, namespace, name)))
    pods = tuple(
        p
        for p in view.owned("pods", found["metadata"]["uid"])
        if (controller_of(p) or {}).get("uid") == found["metadata"]["uid"]
    )
    job = _Job(obj=found, pods=pods, now=now)
    if _finished(found):
        return _after(job)
    status = _counted(job)
    releases = _releases(job, status)
    verdict = _verdict(job, status)
    stamp = timestamp(now)
    status.setdefault("startTime", stamp)
    steps: list[Change] = []
    again: float | None = None
    if verdict is not None:
        steps += [_delete(p) for p in job.active]
        status = _concluded(status, verdict, stamp)
    elif not found["spec"].get("suspend"):
        more, again = _more(job, status)
        steps += more
    else:
        steps += [_delete(p) for p in job.active]
    if verdict is None:
        status = _suspension(found, status, stamp)
    status["active"] = len(job.active) + sum(isinstance(s, Create) for s in steps)
    if verdict is not None:
        status["active"] = 0
    status["ready"] = sum(map(is_ready, job.active)) if verdict is None else 0
    status["terminating"] = sum(is_deleting(p) and _outcome(p) is None for p in pods)
    status = {k: v for k, v in status.items() if v != 0 or k in ("ready", "terminating")}
    if status != found.get("status"):
        # the count is written before the finalizers go, so that a crash here counts nothing twice
        return Changes((UpdateStatus("jobs", {**found, "status": status}), *steps), again)
    return Changes((*releases, *steps), again)


def _left(view: View, namespace: str, name: str) -> list[Obj]:
    """Return the pods that no longer count, since their job is terminating or gone."""
    return [
        pod
        for pod in view.list("pods", namespace)
        if _is_tracked(pod) and (pod["metadata"].get("labels") or {}).get(_NAME) == name
    ]


def _suspension(job: Obj, status: Obj, stamp: str) -> Obj:
    """Return the status with the condition that says whether the job is suspended."""
    suspended = bool(job["spec"].get("suspend"))
    if not suspended and condition(job, "Suspended") is None:
        return status
    verb = "suspended" if suspended else "resumed"
    made = {
        "type": "Suspended",
        "status": str(suspended),
        "reason": f"Job{verb.capitalize()}",
        "message": f"Job {verb}",
        "lastProbeTime": stamp,
    }
    old = condition(job, "Suspended")
    if old is not None and old["status"] == made["status"]:
        return status
    conditions = with_condition(status.get("conditions") or [], made, stamp)
    return {**status, "conditions": conditions}


def _finished(job: Obj) -> bool:
    return any(
        (c := condition(job, kind)) is not None and c["status"] == "True"
        for kind in ("Complete", "Failed")
    )


def _outcome(pod: Obj) -> str | None:
    phase = pod.get("status", {}).get("phase")
    if phase == "Succeeded":
        return "succeeded"
    if phase == "Failed":
        return "failed"
    return None


def _counted(job: _Job) -> Obj:
    """Return the status with finished pods counted once each."""
    status: Obj = edited(job.obj.get("status") or {})
    waiting: Obj = {"succeeded": [], "failed": []}
    tracked = {p["metadata"]["uid"] for p in job.pods if _is_tracked(p)}
    listed = {uid for uids in job.uncounted.values() for uid in uids}
    for outcome, uids in waiting.items():
        for uid in job.uncounted.get(outcome) or ():
            if uid in tracked:
                uids.append(uid)
            else:
                status[outcome] = status.get(outcome, 0) + 1
    for pod in job.pods:
        uid = pod["metadata"]["uid"]
        ended = _outcome(pod) or ("failed" if is_deleting(pod) else None)
        if ended is None or uid in listed or not _is_tracked(pod):
            continue
        waiting[ended].append(uid)
    status["uncountedTerminatedPods"] = {k: v for k, v in waiting.items() if v}
    return status


def _is_tracked(pod: Obj) -> bool:
    return _TRACKING in (pod["metadata"].get("finalizers") or ())


def _releases(job: _Job, status: Obj) -> list[Change]:
    listed = {uid for uids in status["uncountedTerminatedPods"].values() for uid in uids}
    return [_released(p) for p in job.pods if p["metadata"]["uid"] in listed and _is_tracked(p)]


def _released(pod: Obj) -> Update:
    changed = edited(pod)
    changed["metadata"]["finalizers"].remove(_TRACKING)
    return Update("pods", changed)


def _total(status: Obj, outcome: str) -> int:
    waiting = (status.get("uncountedTerminatedPods") or {}).get(outcome) or ()
    return int(status.get(outcome) or 0) + len(waiting)


def _verdict(job: _Job, status: Obj) -> tuple[str, str, str] | None:
    """Return (condition, reason, message) when the job is over."""
    spec = job.obj["spec"]
    failed, succeeded = _total(status, "failed"), _total(status, "succeeded")
    if failed > spec.get("backoffLimit", 6):
        return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    deadline = spec.get("activeDeadlineSeconds")
    started = (job.obj.get("status") or {}).get("startTime")
    if deadline and started and (job.now - parse_time(started)).total_seconds() >= deadline:
        return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
    if job.completions is None:
        over = succeeded > 0 and not job.active
    else:
        over = succeeded >= job.completions
    if over:
        return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
    return None


def _concluded(status: Obj, verdict: tuple[str, str, str], stamp: str) -> Obj:
    kind, reason, message = verdict
    early = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
    waiting = status["uncountedTerminatedPods"]
    conditions = status.get("conditions") or []
    for step in (early,) if waiting else (early, kind):
        made = {"type": step, "status": "True", "reason": reason, "message": message}
        conditions = with_condition(conditions, {**made, "lastProbeTime": stamp}, stamp)
    concluded = {**status, "conditions": conditions}
    if not waiting and kind == "Complete":
        concluded.setdefault("completionTime", stamp)
    return concluded


def _more(job: _Job, status: Obj) -> tuple[list[Change], float | None]:
    """Return the pods to start or stop now, or when the next may start after a failure."""
    active = len(job.active)
    wanted = job.parallelism
    if job.completions is not None:
        wanted = min(wanted, job.completions - _total(status, "succeeded"))
    elif _total(status, "succeeded"):
        wanted = active
    if active > wanted:
        return [_delete(p) for p in job.active[: active - wanted]], None
    if active == wanted:
        return [], _until_deadline(job)
    delay = _backoff(job, status)
    if delay > 0:
        return [], delay
    return [Create("pods", _pod(job.obj)) for _ in range(wanted - active)], _until_deadline(job)


def _until_deadline(job: _Job) -> float | None:
    deadline = job.obj["spec"].get("activeDeadlineSeconds")
    started = (job.obj.get("status") or {}).get("startTime")
    if not deadline:
        return None
    passed = (job.now - parse_time(started)).total_seconds() if started else 0.0
    return float(max(0.1, deadline - passed))


def _backoff(job: _Job, status: Obj) -> float:
    failures = _total(status, "failed")
    ended = [t for p in job.pods if _outcome(p) == "failed" and (t := _ended(p)) is not None]
    if not failures or not ended:
        return 0.0
    delay = min(_BACKOFF_SECONDS * 2.0 ** min(failures - 1, 10), _BACKOFF_LIMIT_SECONDS)
    return delay - (job.now - max(ended)).total_seconds()


def _ended(pod: Obj) -> datetime | None:
    times = [
        parse_time(ended["finishedAt"])
        for c in pod.get("status", {}).get("containerStatuses") or ()
        if (ended := (c.get("state") or {}).get("terminated")) and ended.get("finishedAt")
    ]
    return max(times, default=None)


def _pod(job: Obj) -> Obj:
    pod = pod_from_template(job["spec"]["template"], job)
    pod["metadata"]["generateName"] = f"{job['metadata']['name']}-"
    pod["metadata"]["finalizers"] = [_TRACKING]
    return pod


def _delete(pod: Obj) -> Delete:
    metadata = pod["metadata"]
    return Delete("pods", metadata["namespace"], metadata["name"], metadata["uid"])


def _after(job: _Job) -> Changes:
    """Return the changes to a finished job: release its pods, delete it after its TTL."""
    steps: list[Change] = [_released(p) for p in job.pods if _is_tracked(p)]
    ttl = job.obj["spec"].get("ttlSecondsAfterFinished")
    if ttl is None:
        return Changes(tuple(steps))
    times = [
        parse_time(c["lastTransitionTime"])
        for kind in ("Complete", "Failed")
        if (c := condition(job.obj, kind)) is not None
    ]
    left = ttl - (job.now - max(times)).total_seconds()
    if left > 0:
        return Changes(tuple(steps), again_after=left)
    metadata = job.obj["metadata"]
    gone = Delete("jobs", metadata["namespace"], metadata["name"], metadata["uid"])
    return Changes((*steps, gone))
