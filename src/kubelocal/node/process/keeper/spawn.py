"""Starts one process from its description: fork, prepare, exec.

The child reports through a pipe at which stage it failed; the pipe is closed when the program
starts.
"""

# ruff: noqa: PTH123

from __future__ import annotations

import fcntl
import os
import resource
import signal
import stat
import termios
from typing import Any, NoReturn

from . import namespaces

__all__ = ["fork"]


def fork(spec: dict[str, Any], standard: tuple[int, int, int], report: int) -> int:
    """Fork a child that becomes the described program; return its pid.

    `spec` holds `argv`, `env`, `cwd`, `isolation` (`none`, `mount` or `user`), `tree` (see
    `namespaces.enter`) or `join` (a pid whose mount tree to enter), `cgroups`, `tty`, `limits`,
    `user` (`uid`, `gid`, `groups`), `capabilities` and `no_new_privileges`.
    `standard` are the descriptors for input, output and errors, `report` the write end of a pipe.
    """
    pid = os.fork()
    if pid == 0:
        _become(spec, standard, report)
    return pid


def _become(spec: dict[str, Any], standard: tuple[int, int, int], report: int) -> NoReturn:
    stage = "prepare"
    try:
        _restore_signals()
        os.setsid()
        for number, descriptor in enumerate(standard):
            os.dup2(descriptor, number, inheritable=True)
        if spec.get("tty"):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        stage = "cgroup"
        _enter_cgroups(spec.get("cgroups", []))
        stage = "limits"
        _set_limits(spec.get("limits", {}))
        stage = "mount"
        _enter_tree(spec)
        stage = "cwd"
        os.chdir(spec["cwd"])
        os.umask(0o022)
        stage = "user"
        _become_user(spec)
        stage = "exec"
        os.execvpe(spec["argv"][0], spec["argv"], spec["env"])  # noqa: S606
    except BaseException as error:
        number = error.errno if isinstance(error, OSError) and error.errno else 0
        text = str(error.strerror if isinstance(error, OSError) and error.strerror else error)
        if isinstance(error, OSError) and error.filename:
            text = f"{text}: {os.fsdecode(error.filename)}"
        os.write(report, f"{stage}\0{number}\0{text}".encode())
        os._exit(126)


def _restore_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGPIPE, signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _enter_cgroups(folders: list[str]) -> None:
    for folder in folders:
        with open(f"{folder}/cgroup.procs", "w") as handle:
            handle.write(str(os.getpid()))


def _set_limits(limits: dict[str, int]) -> None:
    for name, wanted in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (value, hard))


def _become_user(spec: dict[str, Any]) -> None:
    """Switch to the container's user; it can still reopen its own output."""
    user = spec.get("user")
    if spec.get("capabilities") is not None:
        namespaces.limit_capabilities(spec["capabilities"])
    if user:
        for number in range(3):
            if stat.S_ISFIFO(os.fstat(number).st_mode) or spec.get("tty"):
                os.fchown(number, user["uid"], user["gid"])
        os.setgroups(user["groups"])
        os.setgid(user["gid"])
        os.setuid(user["uid"])
    if spec.get("no_new_privileges"):
        namespaces.forbid_new_privileges()


def _enter_tree(spec: dict[str, Any]) -> None:
    if spec["isolation"] == "none":
        return
    user = spec["isolation"] == "user"
    if spec.get("join"):
        namespaces.join(int(spec["join"]), user=user)
    else:
        namespaces.enter(spec["tree"], user=user)
