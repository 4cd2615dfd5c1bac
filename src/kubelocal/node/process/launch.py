"""From a container's definition to the description of the process to start."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from kubelocal.node.environment.variables import Sources, compose, expand
from kubelocal.node.images import Image
from kubelocal.node.layout import PodFolder
from kubelocal.node.process.capabilities import capabilities_of
from kubelocal.node.process.client import Description
from kubelocal.node.process.mounts import (
    FRESH,
    Mode,
    Mount,
    PathMap,
    inside,
    mounts_of,
    prepare_sub_path,
    tree_of,
)
from kubelocal.node.process.users import check_user, is_enforced, user_of
from kubelocal.node.shims import write_shims

__all__ = ["TERMINATION_LOG", "Launch", "describe", "exec_description", "hostname_of", "path_map"]

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PROGRAMS = "/usr/local/lib/kubelocal"
TERMINATION_LOG = "/dev/termination-log"


class Launch(Struct, frozen=True, kw_only=True):
    """The inputs for the start of one instance of a container."""

    pod: Mapping[str, Any]
    container: Mapping[str, Any]
    image: Image
    identity: str
    attempt: int
    folder: PodFolder
    mode: Mode
    sources: Sources
    volumes: Mapping[str, Path]
    service_variables: Mapping[str, str]
    cgroups: Sequence[str] = field(default_factory=tuple)
    hidden: Sequence[Path] = field(default_factory=tuple)

    @property
    def name(self) -> str:
        """The container's name."""
        return str(self.container["name"])


def hostname_of(pod: Mapping[str, Any]) -> str:
    """Return the host name of a pod."""
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])[:63].rstrip("-.")


def describe(launch: Launch) -> Description:
    """Prepare the folders of a container and return the description of its process.

    Errors: ConfigError, when an object that it refers to is missing.
    """
    place = launch.folder.container(launch.name)
    for name in ("scratch", "home"):  # an instance gets no files of the one before
        shutil.rmtree(place / name, ignore_errors=True)
    place.mkdir(parents=True, exist_ok=True)
    launch.folder.log(launch.name, launch.attempt).parent.mkdir(parents=True, exist_ok=True)
    variables = compose(
        launch.pod, launch.container, launch.sources, base=_base_variables(launch, place)
    )
    mounts = _all_mounts(launch, place, variables)
    command = launch.image.command(
        [expand(word, variables) for word in launch.container.get("command") or ()],
        [expand(word, variables) for word in launch.container.get("args") or ()],
    )
    context = launch.container.get("securityContext") or {}
    directory = inside(launch.container.get("workingDir") or launch.image.working_dir)
    tree: Mapping[str, Any] | None = None
    mapped = PathMap.of(mounts if launch.mode is Mode.MAPPING else ())
    if launch.mode is Mode.MAPPING:
        command = [mapped.text(word) for word in command]
        variables = {name: mapped.text(value) for name, value in variables.items()}
        variables["PATH"] = f"{place / 'bin'}:{variables.get('PATH', _PATH)}"
        directory = _mapped_directory(mapped.text(directory), place, launch.volumes.values())
    else:
        tree = _tree(launch, place, mounts, directory)
    return Description(
        id=launch.identity,
        argv=command,
        env=variables,
        cwd=directory,
        isolation=launch.mode.isolation,
        tree=tree,
        log=str(launch.folder.log(launch.name, launch.attempt)),
        cgroups=launch.cgroups,
        paths=mapped.sources,
        user=_user(launch),
        no_new_privileges=context.get("allowPrivilegeEscalation") is False,
        capabilities=capabilities_of(launch.container) if is_enforced(launch.mode) else None,
    )


def _user(launch: Launch) -> Mapping[str, Any] | None:
    check_user(launch.pod, launch.container)
    return user_of(launch.pod, launch.container) if is_enforced(launch.mode) else None


def _mapped_directory(directory: str, place: Path, volumes: Iterable[Path]) -> str:
    """Return an existing folder to start in; nothing is created on the machine for it."""
    path = Path(directory)
    if any(path.is_relative_to(volume) for volume in volumes):
        path.mkdir(parents=True, exist_ok=True)
    elif directory == "/" or not path.is_dir():
        path = place / "home" / directory.lstrip("/")
        path.mkdir(parents=True, exist_ok=True)
    return str(path)


def _base_variables(launch: Launch, place: Path) -> dict[str, str]:
    home = place / "home"
    home.mkdir(exist_ok=True)
    user = _user(launch)
    found = str(home)
    if is_enforced(launch.mode):
        found = "/" if user and user["uid"] else "/root"  # who has no entry in passwd lives in /
    return {
        "PATH": _PATH,
        "HOME": found,
        "HOSTNAME": hostname_of(launch.pod),
        **launch.service_variables,
    }


def _all_mounts(launch: Launch, place: Path, variables: Mapping[str, str]) -> list[Mount]:
    declared = mounts_of(launch.container, launch.volumes, variables=variables)
    for mount in declared:
        if mount.source not in launch.volumes.values():
            prepare_sub_path(mount, launch.volumes.values())
    taken = {mount.target for mount in declared}
    own = [
        Mount(_scratch(place, target), target)
        for target in launch.image.volumes
        if target not in taken
    ]
    message = inside(launch.container.get("terminationMessagePath") or TERMINATION_LOG)
    log = place / "termination-log"
    log.write_bytes(b"")
    log.chmod(0o666)
    own.append(Mount(log, message))
    own += _program_mounts(launch, place)
    return sorted([*own, *declared], key=lambda mount: mount.target.count("/"))


def _program_mounts(launch: Launch, place: Path) -> list[Mount]:
    """Mount the image's programs, as shims, in the usual folder."""
    names = launch.image.names
    address = launch.sources.pod_ip
    shims = [Mount(place / "bin" / name, f"/usr/local/bin/{name}") for name in names]
    if launch.mode is Mode.MAPPING:
        write_shims(place / "bin", launch.image, address=address)
        return shims
    inside = {name: Path(_PROGRAMS) / name for name in names}
    write_shims(place / "bin", launch.image, address=address, programs=inside)
    programs = [
        Mount(program, str(inside[name]), read_only=True) for name, program in names.items()
    ]
    needed = [
        Mount(folder, str(folder), read_only=True)
        for folder in launch.image.files
        if any(folder.is_relative_to(fresh) for fresh in FRESH)
    ]
    return needed + programs + shims


def _scratch(place: Path, target: str) -> Path:
    """Return an empty folder, for a volume that an image declares and the pod does not mount."""
    folder = place / "scratch" / target.strip("/").replace("/", "-")
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)  # for any user of the container
    return folder


def _tree(launch: Launch, place: Path, mounts: list[Mount], directory: str) -> dict[str, Any]:
    stage = place / "stage"
    stage.mkdir(exist_ok=True)
    hosts = launch.folder.path / "hosts"
    if hosts.exists():
        mounts = [Mount(hosts, "/etc/hosts"), *mounts]
    home = place / "home"
    if any(home.resolve().is_relative_to(folder) for folder in launch.hidden):
        mounts = [Mount(home, str(home)), *mounts]
    context = launch.container.get("securityContext") or {}
    return tree_of(
        mounts,
        stage=stage,
        hostname=hostname_of(launch.pod),
        working_dir=directory,
        read_only=bool(context.get("readOnlyRootFilesystem")),
        hidden=launch.hidden,
    )


def path_map(
    pod: Mapping[str, Any], volumes: Mapping[str, Path], *, only: Mapping[str, Any] | None = None
) -> PathMap:
    """Return the replacement of mount paths for the files of a pod's volumes, in mapping mode."""
    spec = pod["spec"]
    containers = [*spec["containers"], *(spec.get("initContainers") or ())]
    mounts: dict[str, Mount] = {}
    for container in [only] if only is not None else containers:
        fixed = [m for m in container.get("volumeMounts") or () if not m.get("subPathExpr")]
        for mount in mounts_of({"volumeMounts": fixed}, volumes, variables={}):
            mounts.setdefault(mount.target, mount)
    return PathMap.of(mounts.values())


def exec_description(
    host: Description, *, identity: str, command: Sequence[str], tty: bool = False
) -> Description:
    """Return the description of a command that joins a running container."""
    variables = dict(host.env)
    mapped = PathMap(host.paths)
    if tty:
        variables.setdefault("TERM", "xterm")
    return Description(
        id=identity,
        argv=[mapped.text(word) for word in command],
        env=variables,
        cwd=host.cwd,
        isolation=host.isolation,
        join_id=host.id,
        guest=True,
        tty=tty,
        cgroups=host.cgroups,
        user=host.user,
        no_new_privileges=host.no_new_privileges,
        capabilities=host.capabilities,
    )
