"""The user that a container runs as, and who may read and write its volumes.

Only root can switch to another user, and only with mount namespaces can a user reach paths below
folders that they may not enter. Otherwise pods run as the user who started the cluster.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kubelocal.node.errors import ConfigError
from kubelocal.node.process.mounts import Mode

__all__ = ["check_user", "describe_users", "give_to_group", "group_of", "is_enforced", "user_of"]

_FILE, _FOLDER = 0o660, 0o2770  # the permissions of the group that owns a volume


def is_enforced(mode: Mode) -> bool:
    """Return whether pods run as the users of their specs."""
    return mode is Mode.NAMESPACE and os.geteuid() == 0


def describe_users(mode: Mode) -> str:
    """Return the users that pods run as, in one line."""
    rest = "seccomp profiles are not enforced"
    if is_enforced(mode):
        return f"pods run as the users and with the capabilities that they ask for; {rest}"
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        name = f"user {os.geteuid()}"
    return (
        f"pods run as {name}: runAsUser, runAsGroup, fsGroup and supplementalGroups are not "
        f"enforced, which needs root and mount namespaces; neither are capabilities, and {rest}"
    )


def group_of(pod: Mapping[str, Any]) -> int | None:
    """Return the group of a pod's volumes."""
    found = (pod["spec"].get("securityContext") or {}).get("fsGroup")
    return None if found is None else int(found)


def user_of(pod: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the user and groups of a container's spec, or nothing."""
    shared = pod["spec"].get("securityContext") or {}
    context = {**shared, **(container.get("securityContext") or {})}
    groups = [int(one) for one in shared.get("supplementalGroups") or ()]
    if shared.get("fsGroup") is not None:
        groups.append(int(shared["fsGroup"]))
    uid, gid = context.get("runAsUser"), context.get("runAsGroup")
    if uid is None and gid is None and not groups:
        return None
    return {"uid": int(uid or 0), "gid": int(gid or 0), "groups": sorted({int(gid or 0), *groups})}


def check_user(pod: Mapping[str, Any], container: Mapping[str, Any]) -> None:
    """Raise ConfigError for a container that would run as root and may not, as kubelets do."""
    shared = pod["spec"].get("securityContext") or {}
    context = {**shared, **(container.get("securityContext") or {})}
    if not context.get("runAsNonRoot"):
        return
    meta, asked = pod["metadata"], context.get("runAsUser")
    whose = (
        f'(pod: "{meta["name"]}_{meta["namespace"]}({meta["uid"]})", container: '
        f"{container['name']})"
    )
    if asked is None and os.geteuid() == 0:
        raise ConfigError(f"container has runAsNonRoot and image will run as root {whose}")
    if asked == 0:
        raise ConfigError(f"container's runAsUser breaks non-root policy {whose}")


def give_to_group(folder: Path, group: int) -> None:
    """Let a group read and write a volume; the mode of its top folder shows that it was done."""
    top = folder.stat()
    if top.st_gid == group and top.st_mode & _FOLDER == _FOLDER:
        return
    for path in [*_below(folder), folder]:  # the top last: it shows that all is done
        found = path.lstat()
        os.chown(path, -1, group, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            path.chmod(stat.S_IMODE(found.st_mode) | _FOLDER)
        elif stat.S_ISREG(found.st_mode):
            path.chmod(stat.S_IMODE(found.st_mode) | _FILE)


def _below(folder: Path) -> Iterator[Path]:
    for where, folders, files in os.walk(folder):
        for name in (*folders, *files):
            yield Path(where) / name
