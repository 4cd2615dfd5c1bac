"""Writes the files of a volume so that readers see all of the old or all of the new.

The layout is a kubelet's: the files are in a dated folder, `..data` links to it, and each name
links through `..data`. An update creates a new folder and swaps the link.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from kubelocal.node.environment.payloads import File
from kubelocal.node.errors import VolumeError

__all__ = ["write_files"]

_DATA = "..data"


def write_files(folder: Path, files: Mapping[str, File], *, group: int | None = None) -> bool:
    """Make the folder contain exactly these files; return whether anything changed.

    With a group they belong to it, and it may read them whatever their modes are.

    Errors: VolumeError when the disk is full or a path leaves the folder. The previous files are
    then unchanged.
    """
    for path in files:
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts or path.startswith(".."):
            raise VolumeError(f"{path!r} is not a path within a volume")
    if group is not None:
        files = {path: File(file.content, file.mode | 0o440) for path, file in files.items()}
    if _current(folder) == dict(files) and group in {None, _owner(folder)}:
        return False
    try:
        _write(folder, files, group)
    except OSError as error:
        raise VolumeError(f"cannot write {folder}: {error.strerror}") from error
    return True


def _current(folder: Path) -> dict[str, File] | None:
    data = folder / _DATA
    try:
        place = data.resolve(strict=True)
        return {
            str(path.relative_to(place)): File(path.read_bytes(), path.stat().st_mode & 0o7777)
            for path in place.rglob("*")
            if path.is_file()
        }
    except OSError:
        return None


def _owner(folder: Path) -> int:
    return (folder / _DATA).stat().st_gid


def _write(folder: Path, files: Mapping[str, File], group: int | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    old = (folder / _DATA).resolve() if (folder / _DATA).is_symlink() else None
    new = Path(tempfile.mkdtemp(prefix="..", dir=folder))
    try:
        new.chmod(0o755)
        for path, file in files.items():
            target = new / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.content)
            target.chmod(file.mode)
        if group is not None:
            for made in (new, *new.rglob("*")):
                os.chown(made, -1, group)
        fresh = folder / "..data_tmp"
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
        fresh.symlink_to(new.name)
        fresh.replace(folder / _DATA)
    except OSError:
        shutil.rmtree(new, ignore_errors=True)
        raise
    _link_names(folder, {PurePosixPath(path).parts[0] for path in files})
    if old is not None and old != new and old.parent == folder.resolve():
        shutil.rmtree(old, ignore_errors=True)


def _link_names(folder: Path, names: set[str]) -> None:
    for name in names:
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(f"{_DATA}/{name}")
    for link in folder.iterdir():
        if link.is_symlink() and not link.name.startswith("..") and link.name not in names:
            link.unlink()
