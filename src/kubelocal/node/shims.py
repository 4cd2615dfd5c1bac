"""The bin folder of a pod: programs under their usual names, with what a private network gives.

In a cluster a pod has a network of its own, so a server binds to every address and a client finds
it on localhost. Here pods share the machine's loopback; the shims bind servers to the pod's own
address and point clients without a host at it, so that boot scripts work unchanged. How that is
done for a program is said by the catalog that its image comes from.
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

    `programs` says where the container sees them, when that is not where they are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, program in (programs or image.names).items():
        shim = folder / name
        shim.write_text(image.start(name, shlex.quote(str(program)), address, image.version))
        shim.chmod(0o755)
