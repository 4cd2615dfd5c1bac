"""The volumes of one pod: created before its containers start, and updated while they run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubecontroller.client.objects import CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, SECRETS
from kubelocal.node.api import VOLUMES, Cluster, Token
from kubelocal.node.environment.downward import NodeFacts
from kubelocal.node.environment.payloads import (
    File,
    TokenRequest,
    is_payload,
    objects_named,
    payload,
    token_requests,
)
from kubelocal.node.environment.variables import Sources
from kubelocal.node.errors import ConfigError, VolumeError
from kubelocal.node.layout import Layout, PodFolder
from kubelocal.node.process.launch import path_map
from kubelocal.node.process.mounts import Mode
from kubelocal.node.process.users import give_to_group, group_of, is_enforced
from kubelocal.node.volumes.atomic import write_files

__all__ = ["PodVolumes"]

_REFRESH = 0.8
_PROVISIONED = "/volumes/"


class PodVolumes:
    """Makes and refreshes the volumes of a pod.

    Guarantees: a refresh swaps files as a whole; the data of claims is never removed here.
    """

    def __init__(
        self, cluster: Cluster, layout: Layout, folder: PodFolder, *, mode: Mode, node: NodeFacts
    ) -> None:
        self._cluster = cluster
        self._layout = layout
        self._folder = folder
        self._mode = mode
        self._node = node
        self._tokens: dict[TokenRequest, tuple[Token, float]] = {}
        self.folders: dict[str, Path] = {}

    async def sources(self, pod: Mapping[str, Any], address: str) -> Sources:
        """Return the objects that the pod's variables and files come from."""
        namespace = pod["metadata"]["namespace"]
        named = objects_named(pod)
        maps = {name: await self._find(CONFIG_MAPS, namespace, name) for name in named.config_maps}
        secrets = {name: await self._find(SECRETS, namespace, name) for name in named.secrets}
        return Sources(
            node=self._node,
            pod_ip=address,
            config_maps={name: found for name, found in maps.items() if found is not None},
            secrets={name: found for name, found in secrets.items() if found is not None},
        )

    async def _find(self, kind: Any, namespace: str, name: str) -> dict[str, Any] | None:
        return await self._cluster.find(kind, (namespace, name))

    async def prepare(self, pod: Mapping[str, Any], address: str) -> None:
        """Create every volume of the pod; raise VolumeError when one cannot be created."""
        declared = pod["spec"].get("volumes") or ()
        for volume in declared:
            self.folders[volume["name"]] = await self._place(pod, volume)
        await self.refresh(pod, address)
        group = self._group(pod)
        for volume in declared:
            if group is not None and not is_payload(volume):
                await self._hand_over(volume["name"], group)

    def _group(self, pod: Mapping[str, Any]) -> int | None:
        return group_of(pod) if is_enforced(self._mode) else None

    async def _hand_over(self, name: str, group: int) -> None:
        try:
            await asyncio.to_thread(give_to_group, self.folders[name], group)
        except OSError as error:
            raise _failed(name, f"{error.strerror}: {error.filename}") from error

    async def _place(self, pod: Mapping[str, Any], volume: Mapping[str, Any]) -> Path:
        name = volume["name"]
        claim = volume.get("persistentVolumeClaim")
        try:
            if claim is not None:
                folder = await self._claimed(pod, claim["claimName"], name)
            elif volume.get("emptyDir") is not None or is_payload(volume):
                folder = self._folder.volume(name)
            else:
                raise _failed(name, _unsupported(volume))
            is_new = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            if claim is None or (is_new and is_enforced(self._mode)):
                folder.chmod(0o777)
        except OSError as error:
            raise _failed(name, f"{error.strerror}: {error.filename}") from error
        return folder

    async def _claimed(self, pod: Mapping[str, Any], claim: str, volume: str) -> Path:
        namespace = pod["metadata"]["namespace"]
        found = await self._cluster.find(PERSISTENT_VOLUME_CLAIMS, (namespace, claim))
        if found is None:
            raise _failed(volume, f'persistentvolumeclaim "{claim}" not found')
        bound = found["spec"].get("volumeName")
        if not bound:
            raise _failed(volume, f'persistentvolumeclaim "{claim}" is not bound')
        disk = await self._cluster.find(VOLUMES, ("", bound))
        if disk is None:
            raise _failed(volume, f'persistentvolume "{bound}" not found')
        path = (disk["spec"].get("hostPath") or {}).get("path", "")
        if not path.startswith(_PROVISIONED):
            reason = f'persistentvolume "{bound}" was not created by this local cluster'
            raise _failed(volume, f"{reason}; use the default storage class")
        return self._layout.claim(bound)

    async def refresh(self, pod: Mapping[str, Any], address: str) -> None:
        """Bring the files of every volume up to date."""
        declared = [v for v in pod["spec"].get("volumes") or () if is_payload(v)]
        if not declared:
            return
        sources = await self.sources(pod, address)
        for volume in declared:
            name = volume["name"]
            try:
                tokens = {
                    wanted: await self._token(pod, wanted) for wanted in token_requests(volume)
                }
                files = payload(volume, pod, sources, tokens=tokens)
                mapped = self._mapped(pod, files)
                write_files(self._folder.volume(name), mapped, group=self._group(pod))
            except (VolumeError, ConfigError) as error:
                raise _failed(name, str(error)) from error

    def _mapped(self, pod: Mapping[str, Any], files: dict[str, File]) -> dict[str, File]:
        if self._mode is not Mode.MAPPING:
            return files
        paths = path_map(pod, self.folders)
        return {name: File(paths.content(file.content), file.mode) for name, file in files.items()}

    async def _token(self, pod: Mapping[str, Any], wanted: TokenRequest) -> str:
        now = asyncio.get_running_loop().time()
        known = self._tokens.get(wanted)
        if known is None or now > known[1]:
            token = await self._cluster.token(pod, wanted)
            known = self._tokens[wanted] = (token, now + _REFRESH * token.seconds)
        return known[0].text

    @property
    def refresh_at(self) -> float | None:
        """When tokens must be renewed, in loop time; None when there are none."""
        return min((due for _, due in self._tokens.values()), default=None)


def _failed(volume: str, problem: str) -> VolumeError:
    return VolumeError(f'MountVolume.SetUp failed for volume "{volume}" : {problem}')


def _unsupported(volume: Mapping[str, Any]) -> str:
    kinds = [kind for kind in volume if kind != "name"]
    if "hostPath" in kinds:
        return (
            "hostPath volumes are refused in local mode: pods must not reach the machine's own "
            "files; use a persistentVolumeClaim or an emptyDir"
        )
    return f"volumes of kind {', '.join(kinds) or '(none)'} are not supported in local mode"
