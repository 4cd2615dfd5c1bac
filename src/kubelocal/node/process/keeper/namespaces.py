"""Gives a process its own mount namespace, between fork and exec.

The new root is a small tmpfs. Every top folder of the machine is mounted in it under a private
writable layer (overlayfs), so that a container can write anywhere and mount points such as `/data`
or `/etc/conf` can be created, while the machine's own files are not changed. Where the kernel
refuses a layer for a folder, that folder is bind-mounted as it is, with its permissions. Paths of
mounts are resolved within the new root, links included: none leads out of it. This separates pods
from each other and from hidden folders; it is not a security boundary.
"""

# Every pod waits for the start of the keeper: no pathlib here.
# ruff: noqa: PTH101, PTH102, PTH103, PTH106, PTH108, PTH112, PTH114, PTH115
# ruff: noqa: PTH120, PTH123, PTH211

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Collection
from typing import Any

__all__ = ["become_subreaper", "enter", "forbid_new_privileges", "join", "limit_capabilities"]

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWUSER = 0x00020000, 0x04000000, 0x10000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_REMOUNT, _MS_BIND = 1, 2, 4, 32, 4096
_MS_REC, _MS_SLAVE, _MS_RELATIME, _MNT_DETACH = 16384, 1 << 19, 1 << 21, 2
_ST_RELATIME = 4096
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAPBSET_READ, _PR_CAPBSET_DROP = 23, 24
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "ppc64le": 203, "s390x": 217, "riscv64": 41}
_AS_IS = ("proc", "sys")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LAYERS = ".layers"
_MOST_LINKS = 40


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
    """Make orphaned descendants of this process its own children."""
    _check(_LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def forbid_new_privileges() -> None:
    """Keep programs executed from here on from gaining privileges, as set-user-id ones would."""
    _check(_LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")


def limit_capabilities(kept: Collection[int]) -> None:
    """Drop all other capabilities of programs executed from here on, root's too."""
    for number in range(64):
        if number in kept or _LIBC.prctl(_PR_CAPBSET_READ, number, 0, 0, 0) < 0:
            continue
        _check(_LIBC.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0), "prctl")


def join(pid: int, *, user: bool) -> None:
    """Enter the mount namespace of a running process."""
    kinds = (("user", _CLONE_NEWUSER),) if user else ()
    files = [
        (os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC), flag, kind)
        for kind, flag in (*kinds, ("uts", _CLONE_NEWUTS), ("mnt", _CLONE_NEWNS))
    ]
    for file, flag, kind in files:
        _check(_LIBC.setns(file, flag), f"setns {kind}")


def enter(tree: dict[str, Any], *, user: bool) -> None:
    """Enter a new mount namespace with the mounts that `tree` describes.

    `tree`: `stage` (an empty folder to build on), `hostname`, `fresh` (top folders that start
    empty), `hidden` (folders of the machine that are shown empty), `folders` (to create), `binds`
    (`source`, `target`, `read_only`; outermost first) and `read_only` (whether the container may
    write outside its volumes).
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
    ground = _Ground(stage)
    layered = _show_machine(ground, fresh=set(tree["fresh"]), user=user)
    for folder in tree.get("hidden", ()):
        _hide(ground, folder)
    for folder in tree["folders"]:
        place = ground.resolve(folder, follow_last=True)
        ground.make_reachable(place)
        os.makedirs(stage + place, exist_ok=True)
    for bind in tree["binds"]:
        _bind(ground, bind)
    if tree["read_only"]:
        for folder in layered:
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


def _takes_names(folder: str) -> bool:
    """Return, by trying, whether files can be created in a layer: permissions do not show it."""
    trial = f"{folder}/.kubelocal-trial"
    try:
        os.mkdir(trial)
        os.rmdir(trial)
    except OSError:
        return False
    return True


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


class _Ground:
    """The mounts being built, and where in them mount points may be created.

    `as_is` are the top folders that show the machine's own files, which are never written to;
    within them new names are possible only in `rebuilt` folders. `bound` are volumes: what is
    created in them is created in the volume, as a container runtime does.
    """

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self.as_is: set[str] = set()
        self.rebuilt: set[str] = set()
        self.hidden: list[str] = []
        self.bound: list[str] = []

    def resolve(self, target: str, *, follow_last: bool) -> str:
        """Return a path without dots and links, resolved with the stage as the root."""
        left = [part for part in target.split("/") if part]
        here: list[str] = []
        links = 0
        while left:
            part = left.pop(0)
            if part in (".", ".."):
                here = here[:-1] if part == ".." else here
                continue
            path = self.stage + "".join(f"/{one}" for one in (*here, part))
            if (left or follow_last) and os.path.islink(path):
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, f"too many links in {target}")
                points = os.readlink(path)
                here = [] if points.startswith("/") else here
                left = [one for one in points.split("/") if one] + left
                continue
            here.append(part)
        return "".join(f"/{one}" for one in here)

    def make_room(self, target: str) -> None:
        """Remove a link at the mount point of a file; never one of the machine."""
        if not os.path.islink(self.stage + target):
            return
        parent = target.rpartition("/")[0]
        is_bound = any(_is_within(parent, path) for path in self.bound)
        if not is_bound and not self._may_create_in(parent):
            self._rebuild(parent)
        os.unlink(self.stage + target)

    def _may_create_in(self, folder: str) -> bool:
        if folder in self.rebuilt or any(_is_within(folder, path) for path in self.hidden):
            return True
        if any(_is_within(folder, path) for path in self.rebuilt):
            return False  # a bind mount of the machine's own folder
        # In a user namespace the layer of a folder that root owns cannot be written to.
        top = folder.split("/")[1] if folder else ""
        return top not in self.as_is and _takes_names(self.stage + folder)

    def make_reachable(self, target: str) -> None:
        """Rebuild folders on the path of a mount point in which the next part is missing."""
        here = ""
        for part in [part for part in target.split("/") if part]:
            if any(_is_within(here, path) for path in self.bound):
                return
            following = f"{here}/{part}"
            if not os.path.lexists(self.stage + following):
                if not self._may_create_in(here):
                    self._rebuild(here)
                return
            here = following

    def _rebuild(self, here: str) -> None:
        """Mount a new folder over one of the machine's, and bind its previous content into it.

        Earlier changes within it stay: hidden, mounted or rebuilt parts are bound from the current
        tree, and all else from the machine, read-only.
        """
        there = self.stage + here
        entries = [(entry.name, entry.is_symlink(), entry.is_dir()) for entry in os.scandir(there)]
        links = {name: os.readlink(f"{there}/{name}") for name, is_link, _ in entries if is_link}
        before = os.open(there, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        flags = _MS_NOSUID | _MS_NODEV
        _mount("tmpfs", there, kind="tmpfs", flags=flags, options="mode=755,size=16m")
        for name, is_link, is_folder in entries:
            if is_link:
                os.symlink(links[name], f"{there}/{name}")
                continue
            _create_point(f"{there}/{name}", folder=is_folder)
            if self._is_changed(f"{here}/{name}"):
                _mount(
                    f"/proc/self/fd/{before}/{name}", f"{there}/{name}", flags=_MS_BIND | _MS_REC
                )
                continue
            _mount(f"{here}/{name}", f"{there}/{name}", flags=_MS_BIND | _MS_REC)
            if here.split("/")[1] not in self.as_is:
                _protect(f"{there}/{name}")
        os.close(before)
        self.rebuilt.add(here)

    def _is_changed(self, path: str) -> bool:
        """Return whether anything at or below a path differs from the machine."""
        ours = (*self.hidden, *self.bound, *self.rebuilt)
        return any(_is_within(one, path) for one in ours) or not os.path.lexists(path)


def _show_machine(ground: _Ground, *, fresh: set[str], user: bool) -> list[str]:
    """Mount the machine's top folders in the new root; return those that are layered."""
    layered = []
    for entry in os.scandir("/"):
        target = f"{ground.stage}/{entry.name}"
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), target)
        elif not entry.is_dir() or entry.name == "lost+found":
            continue
        elif entry.name in fresh:
            os.mkdir(target)
            os.chmod(target, 0o1777)  # noqa: S103 - as a container's own /tmp
        elif entry.name == "dev":
            os.mkdir(target)
            _show_devices(target)
        else:
            os.mkdir(target)
            if entry.name not in _AS_IS and _layer(ground.stage, entry.name, user=user):
                layered.append(target)
            else:
                _mount(entry.path, target, flags=_MS_BIND | _MS_REC)
                ground.as_is.add(entry.name)
    return layered


def _show_devices(target: str) -> None:
    """Create a `/dev` with the few devices of a container."""
    for name in _DEVICES:
        if os.path.lexists(f"/dev/{name}"):
            _create_point(f"{target}/{name}", folder=False)
            _mount(f"/dev/{name}", f"{target}/{name}", flags=_MS_BIND)
    if os.path.isdir("/dev/pts"):
        os.mkdir(f"{target}/pts")
        _mount("/dev/pts", f"{target}/pts", flags=_MS_BIND | _MS_REC)
    os.mkdir(f"{target}/shm")
    os.chmod(f"{target}/shm", 0o1777)  # noqa: S103 - as a container's own
    links = {"fd": "/proc/self/fd", "ptmx": "pts/ptmx"}
    links |= {name: f"/proc/self/fd/{n}" for n, name in enumerate(("stdin", "stdout", "stderr"))}
    for name, points in links.items():
        os.symlink(points, f"{target}/{name}")


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


def _create_point(path: str, *, folder: bool) -> None:
    if folder:
        os.makedirs(path, exist_ok=True)
    elif not os.path.lexists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _hide(ground: _Ground, folder: str) -> None:
    """Hide a folder of the machine behind an empty one, where the container would see it."""
    target = ground.resolve(folder, follow_last=True)
    there = ground.stage + target
    if os.path.isdir(there):
        _mount("tmpfs", there, kind="tmpfs", flags=_MS_NOSUID | _MS_NODEV, options="mode=755")
        ground.hidden.append(target)


def _bind(ground: _Ground, bind: dict[str, Any]) -> None:
    source = str(bind["source"])
    is_folder = os.path.isdir(source)
    target = ground.resolve(str(bind["target"]), follow_last=is_folder)
    if not target:
        raise OSError(errno.EINVAL, f"{bind['target']} is the root, which cannot be mounted over")
    ground.make_reachable(target)
    ground.make_room(target)
    there = ground.stage + target
    _create_point(there, folder=is_folder)
    _mount(source, there, flags=_MS_BIND | _MS_REC)
    if bind["read_only"]:
        _protect(there)
    ground.bound.append(target)


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
