"""Give a process its own mount tree, between fork and exec.

The new root is a small tmpfs. Every top folder of the machine is laid into it under a private
writable layer (overlayfs), so that a container can write where it likes and a mount point such as
`/data` or `/etc/conf` can appear, while the machine's own files are never touched. Where the kernel
refuses a layer for a folder, that folder is shown as it is.
"""

# The keeper is started by the hundred milliseconds that a pod may take: no pathlib in here.
# ruff: noqa: PTH101, PTH102, PTH103, PTH106, PTH108, PTH112, PTH114, PTH115
# ruff: noqa: PTH116, PTH120, PTH123, PTH211

from __future__ import annotations

import ctypes
import os
from typing import Any

__all__ = ["become_subreaper", "enter", "join"]

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWUSER = 0x00020000, 0x04000000, 0x10000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_REMOUNT, _MS_BIND = 1, 2, 4, 32, 4096
_MS_REC, _MS_SLAVE, _MS_RELATIME, _MNT_DETACH = 16384, 1 << 19, 1 << 21, 2
_ST_RELATIME = 4096
_PR_SET_CHILD_SUBREAPER = 36
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "ppc64le": 203, "s390x": 217, "riscv64": 41}
_AS_IS = ("proc", "sys", "dev")
_LAYERS = ".layers"


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(source: str, target: str, *, kind: str = "", flags: int = 0, options: str = "") -> None:
    result = _LIBC.mount(
        source.encode() or None,
        target.encode(),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    _check(result, f"mount {source or kind} on {target}")


def become_subreaper() -> None:
    """Make orphans of this process's descendants its own children."""
    _check(_LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def join(pid: int, *, user: bool) -> None:
    """Enter the mount tree of a running process."""
    kinds = (("user", _CLONE_NEWUSER),) if user else ()
    files = [
        (os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC), flag, kind)
        for kind, flag in (*kinds, ("uts", _CLONE_NEWUTS), ("mnt", _CLONE_NEWNS))
    ]
    for file, flag, kind in files:
        _check(_LIBC.setns(file, flag), f"setns {kind}")


def enter(tree: dict[str, Any], *, user: bool) -> None:
    """Leave the machine's mount tree for the one that `tree` describes.

    `tree`: `stage` (an empty folder to build on), `hostname`, `fresh` (top folders that start
    empty), `folders` (to create), `binds` (`source`, `target`, `read_only`; outermost first) and
    `read_only` (whether the container may write outside its volumes).
    """
    uid, gid = os.getuid(), os.getgid()
    flags = _CLONE_NEWNS | _CLONE_NEWUTS | (_CLONE_NEWUSER if user else 0)
    _check(_LIBC.unshare(flags), "unshare")
    if user:
        _map_identity(uid, gid)
    name = str(tree["hostname"]).encode()
    _check(_LIBC.sethostname(name, len(name)), "sethostname")
    _mount("", "/", flags=_MS_REC | _MS_SLAVE)
    stage = str(tree["stage"])
    _mount("tmpfs", stage, kind="tmpfs", flags=_MS_NOSUID | _MS_NODEV, options="mode=755,size=256m")
    shown = _show_machine(stage, fresh=set(tree["fresh"]), user=user)
    bound: list[str] = []
    for folder in tree["folders"]:
        _make_reachable(stage, folder, bound)
        os.makedirs(stage + folder, exist_ok=True)
    for bind in tree["binds"]:
        _bind(stage, bind, bound)
    if tree["read_only"]:
        for folder in shown:
            _protect(folder)
        _protect(stage)
    _swap_root(stage)


def _map_identity(uid: int, gid: int) -> None:
    for file, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        with open(f"/proc/self/{file}", "w") as handle:
            handle.write(text)


def _show_machine(stage: str, *, fresh: set[str], user: bool) -> list[str]:
    """Lay the machine's top folders into the new root; return those that are layered."""
    shown = []
    for entry in os.scandir("/"):
        target = f"{stage}/{entry.name}"
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), target)
        elif not entry.is_dir() or entry.name == "lost+found":
            continue
        elif entry.name in fresh:
            os.mkdir(target)
            os.chmod(target, 0o1777)  # noqa: S103 - as a container's own /tmp
        else:
            os.mkdir(target)
            if entry.name not in _AS_IS and _layer(stage, entry.name, user=user):
                shown.append(target)
            else:
                _mount(entry.path, target, flags=_MS_BIND | _MS_REC)
    return shown


def _layer(stage: str, name: str, *, user: bool) -> bool:
    upper, work = f"{stage}/{_LAYERS}/upper/{name}", f"{stage}/{_LAYERS}/work/{name}"
    os.makedirs(upper)
    os.makedirs(work)
    options = f"lowerdir=/{name},upperdir={upper},workdir={work}" + (",userxattr" if user else "")
    try:
        _mount("overlay", f"{stage}/{name}", kind="overlay", options=options)
    except OSError:
        return False
    return True


def _make_reachable(stage: str, target: str, bound: list[str]) -> None:
    """Rebuild folders on the way to `target` in which the next step cannot be created."""
    here = ""
    for part in [part for part in target.split("/") if part]:
        if any(here == path or here.startswith(path + "/") for path in bound):
            return
        following = f"{here}/{part}"
        if here and not os.path.lexists(stage + following) and not _can_create(stage + following):
            _rebuild(stage, here)
        if not os.path.lexists(stage + following):
            return
        here = following


def _can_create(folder: str) -> bool:
    if os.stat(os.path.dirname(folder)).st_dev == os.stat("/").st_dev:
        return False  # the machine's own folder, shown as it is: never write to it
    try:
        os.mkdir(folder)
        os.rmdir(folder)
    except OSError:
        return False
    return True


def _rebuild(stage: str, here: str) -> None:
    """Lay a fresh folder over one of the machine's, with what that held bound into it."""
    there = stage + here
    entries = [(entry.name, entry.is_symlink(), entry.is_dir()) for entry in os.scandir(here)]
    _mount("tmpfs", there, kind="tmpfs", flags=_MS_NOSUID | _MS_NODEV, options="mode=755,size=16m")
    for name, is_link, is_folder in entries:
        if is_link:
            os.symlink(os.readlink(f"{here}/{name}"), f"{there}/{name}")
            continue
        _create_point(f"{there}/{name}", folder=is_folder)
        _mount(f"{here}/{name}", f"{there}/{name}", flags=_MS_BIND | _MS_REC)


def _create_point(path: str, *, folder: bool) -> None:
    if folder:
        os.makedirs(path, exist_ok=True)
    elif not os.path.lexists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _bind(stage: str, bind: dict[str, Any], bound: list[str]) -> None:
    source, target = str(bind["source"]), str(bind["target"]).rstrip("/")
    _make_reachable(stage, target, bound)
    there = stage + target
    if os.path.islink(there) and not os.path.isdir(source):
        os.unlink(there)
    _create_point(there, folder=os.path.isdir(source))
    _mount(source, there, flags=_MS_BIND | _MS_REC)
    if bind["read_only"]:
        _protect(there)
    bound.append(target)


def _protect(there: str) -> None:
    """Make one mount read-only, keeping the flags that a user namespace may not drop."""
    flag = os.statvfs(there).f_flag
    kept = flag & (2 | 4 | 8 | 1024 | 2048) | (_MS_RELATIME if flag & _ST_RELATIME else 0)
    _mount("", there, flags=_MS_BIND | _MS_REMOUNT | _MS_RDONLY | kept)


def _swap_root(stage: str) -> None:
    os.chdir(stage)
    number = _PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        os.chroot(".")
        os.chdir("/")
        return
    _check(_LIBC.syscall(number, b".", b"."), "pivot_root")
    _check(_LIBC.umount2(b".", _MNT_DETACH), "umount of the old root")
    os.chdir("/")
