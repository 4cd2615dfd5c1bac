"""The sources and targets of a container's mounts, in each of the three modes.

Pure, but for `prepare_sub_path`. In the namespace modes a plan becomes bind mounts; in mapping mode
the declared mount paths are replaced, wherever they occur, by the folders behind them.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Any, Final

from msgspec import Struct

from kubelocal.node.environment.variables import expand
from kubelocal.node.errors import ConfigError

__all__ = [
    "FRESH",
    "Mode",
    "Mount",
    "PathMap",
    "inside",
    "mounts_of",
    "prepare_sub_path",
    "tree_of",
]

FRESH: Final = ("/tmp", "/run")  # noqa: S108 - a container has its own, empty


class Mode(StrEnum):
    """How containers get their mount paths."""

    NAMESPACE = "namespace"
    USER_NAMESPACE = "user-namespace"
    MAPPING = "mapping"

    @property
    def isolation(self) -> str:
        """The keeper's name for it."""
        return {"namespace": "mount", "user-namespace": "user", "mapping": "none"}[self.value]


class Mount(Struct, frozen=True):
    """A folder or file of the machine, and the path under which a container sees it."""

    source: Path
    target: str
    read_only: bool = False


def mounts_of(
    container: Mapping[str, Any],
    volumes: Mapping[str, Path],
    *,
    variables: Mapping[str, str],
) -> list[Mount]:
    """Return the mounts a container declares, outermost first."""
    mounts = []
    for declared in container.get("volumeMounts") or ():
        folder = volumes.get(declared["name"])
        if folder is None:
            raise ConfigError(f"volume {declared['name']} is not among the pod's volumes")
        sub_path = declared.get("subPath") or ""
        if declared.get("subPathExpr"):
            sub_path = expand(declared["subPathExpr"], variables)
            if "$(" in sub_path:
                raise ConfigError(f"subPathExpr {declared['subPathExpr']} uses unknown variables")
        source = folder / sub_path if sub_path else folder
        target = inside(declared["mountPath"])
        mounts.append(Mount(source, target, bool(declared.get("readOnly"))))
    return sorted(mounts, key=lambda mount: len(PurePosixPath(mount.target).parts))


def inside(path: str) -> str:
    """Return an absolute path of a container without dots: none leads above its root."""
    return posixpath.normpath(f"/{path.lstrip('/')}")


def prepare_sub_path(mount: Mount, volumes: Iterable[Path]) -> None:
    """Create the folder of a sub path, and refuse one that leads out of its volume."""
    volume = next((one for one in volumes if mount.source.is_relative_to(one)), None)
    if volume is None or ".." in mount.source.parts:
        raise ConfigError(f"sub path {mount.source} leads out of its volume")
    root, wanted = volume.resolve(), mount.source.resolve()
    if not wanted.is_relative_to(root):
        raise ConfigError(f"sub path {mount.source} leads out of its volume by a link")
    if not wanted.exists():
        _create_below(root, wanted.relative_to(root))


def _create_below(root: Path, folders: Path) -> None:
    """Create folders one in the other, and follow no link that a container made meanwhile."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    with ExitStack() as opened:
        place = os.open(root, flags)
        opened.callback(os.close, place)
        for name in folders.parts:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=place)
            try:
                place = os.open(name, flags, dir_fd=place)
            except OSError as error:
                raise ConfigError(
                    f"sub path {folders} of volume {root}: {name} is not a folder"
                ) from error
            opened.callback(os.close, place)


def tree_of(
    mounts: Sequence[Mount],
    *,
    stage: Path,
    hostname: str,
    working_dir: str,
    read_only: bool,
    hidden: Iterable[Path] = (),
) -> dict[str, Any]:
    """Return the mount tree in the form that `keeper.namespaces.enter` reads."""
    return {
        "stage": str(stage),
        "hostname": hostname,
        "fresh": [folder.strip("/") for folder in FRESH],
        "hidden": [str(folder) for folder in hidden],
        "folders": [working_dir] if working_dir != "/" else [],
        "read_only": read_only,
        "binds": [
            {"source": str(mount.source), "target": mount.target, "read_only": mount.read_only}
            for mount in mounts
        ],
    }


class PathMap:
    """Replaces mount paths by the folders behind them, in texts.

    A path is replaced only where it is a whole path: `/data` in `--dir /data/x` and in
    `dir="/data"`, but neither in `/database` nor in `/mnt/data`.
    """

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = {target: source for target, source in sources.items() if target != "/"}
        longest_first = sorted(self._sources, key=len, reverse=True)
        choices = "|".join(re.escape(target) for target in longest_first)
        self._pattern = re.compile(rf"(?<![\w./-])(?:{choices})(?![\w.-])") if choices else None

    @classmethod
    def of(cls, mounts: Iterable[Mount]) -> PathMap:
        """Return the map of some mounts."""
        return cls({mount.target: str(mount.source) for mount in mounts})

    @property
    def sources(self) -> Mapping[str, str]:
        """The replacement of each path."""
        return self._sources

    def text(self, text: str) -> str:
        """Replace every mount path in a text."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self._sources[match[0]], text)

    def content(self, content: bytes) -> bytes:
        """Replace every mount path in a file, unless it is not text."""
        try:
            return self.text(content.decode()).encode()
        except UnicodeDecodeError:
            return content
