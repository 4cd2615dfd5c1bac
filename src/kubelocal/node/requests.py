"""Log and exec requests of the API server: which log, which container, why not."""

from __future__ import annotations

from collections.abc import AsyncIterator

from kubecontroller import Key
from kubelocal.apiserver.pod_api import ExecOptions, ExecSession, HookError, LogOptions
from kubelocal.node.errors import KeeperError, StartError
from kubelocal.node.logs import read_log
from kubelocal.node.pod.container import ContainerRunner
from kubelocal.node.pod.runner import PodRunner
from kubelocal.node.pod.states import Role, Terminated, Waiting
from kubelocal.node.process.execution import start_session

__all__ = ["open_exec", "open_logs"]

_UNPULLED = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull")
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


def _bad_request(message: str) -> HookError:
    return HookError(400, "BadRequest", message)


def _container(runner: PodRunner | None, key: Key, name: str | None) -> ContainerRunner:
    if runner is None:
        raise HookError(404, "NotFound", f'pods "{key[1]}" not found on any node')
    if name is None:
        mains = [one for one in runner.runners if one.role is Role.MAIN]
        annotations = runner.pod["metadata"].get("annotations") or {}
        preferred = annotations.get(_DEFAULT_CONTAINER)
        if preferred is None and len(mains) > 1:
            listed = " ".join(one.name for one in mains)
            raise _bad_request(
                f"a container name must be specified for pod {key[1]}, choose one of: [{listed}]"
            )
        name = preferred or mains[0].name
    for one in runner.runners:
        if one.name == name:
            return one
    raise _bad_request(f"container {name} is not valid for pod {key[1]}")


def open_logs(runner: PodRunner | None, key: Key, options: LogOptions) -> AsyncIterator[bytes]:
    """Return the requested log; raise HookError, worded like a kubelet's, when there is none."""
    one = _container(runner, key, options.container)
    assert runner is not None
    container = one.container
    attempt = container.attempt
    if options.previous:
        waits_again = isinstance(container.state, Waiting) and container.last is not None
        attempt = attempt if waits_again else attempt - 1
        if attempt < 0:
            raise _bad_request(
                f'previous terminated container "{one.name}" in pod "{key[1]}" not found'
            )
    elif attempt < 0:
        reason = container.state.reason if isinstance(container.state, Waiting) else ""
        why = "trying and failing to pull image" if reason in _UNPULLED[:1] else reason
        if reason in _UNPULLED[1:]:
            why = "image can't be pulled"
        raise _bad_request(f'container "{one.name}" in pod "{key[1]}" is waiting to start: {why}')

    def is_over() -> bool:
        return container.attempt != attempt or isinstance(container.state, Terminated | Waiting)

    return read_log(runner.folder.log(one.name, attempt), options, is_over=is_over)


async def open_exec(runner: PodRunner | None, key: Key, options: ExecOptions) -> ExecSession:
    """Start a command in the chosen container."""
    one = _container(runner, key, options.container)
    assert runner is not None
    if not options.command:
        raise _bad_request("you must specify at least one command for the container")
    if one.description is None or not one.is_running:
        raise HookError(
            500,
            "InternalError",
            f'unable to upgrade connection: container not found ("{one.name}")',
        )
    try:
        return await start_session(
            runner.machine.processes,
            one.description,
            runner.folder.container(one.name),
            options.command,
            stdin=options.stdin,
            tty=options.tty,
        )
    except (StartError, KeeperError) as error:
        message = f'error executing command in container: exec: "{options.command[0]}": {error}'
        raise HookError(500, "InternalError", message) from error
