"""The bin folder of a pod: programs under their usual names, adapted to a shared network.

In a cluster a pod has its own network, so a server binds to every address and a client finds it on
localhost. Here pods share the machine's loopback; the shims bind servers to the pod's own address
and make clients without a host use it, so that start scripts work unchanged. The catalog of the
image has the script of each program.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from kubelocal.node.images import Image

__all__ = ["write_shims"]


def write_shims(
    folder: Path, image: Image, *, address: str, programs: Mapping[str, Path] | None = None
) -> None:
    """Write the programs of an image into a folder that goes first on the container's PATH.

    `programs` are the paths of the programs in the container, where they differ.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, program in (programs or image.names).items():
        shim = folder / name
        shim.write_text(image.start(name, shlex.quote(str(program)), address, image.version))
        shim.chmod(0o755)
