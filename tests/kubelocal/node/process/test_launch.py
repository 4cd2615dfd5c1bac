"""Commands of this Python environment as images: their files are where they expect them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from kubelocal.node.environment.downward import NodeFacts
from kubelocal.node.environment.variables import Sources
from kubelocal.node.images import Catalog, Image, Images
from kubelocal.node.layout import PodFolder
from kubelocal.node.process.launch import Launch, describe
from kubelocal.node.process.mounts import FRESH, Mode

POD: dict[str, Any] = {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {}}


def binds(image: Image, folder: Path) -> dict[str, dict[str, Any]]:
    """Return what is mounted for a container of an image, by where it is seen."""
    launch = Launch(
        pod=POD,
        container={"name": "c"},
        image=image,
        identity="i",
        attempt=0,
        folder=PodFolder(folder),
        mode=Mode.NAMESPACE,
        sources=Sources(node=NodeFacts("n", "127.0.1.1", 1.0, 1), pod_ip="127.5.0.1"),
        volumes={},
        service_variables={},
    )
    tree = describe(launch).tree
    assert tree is not None
    return {bind["target"]: bind for bind in tree["binds"]}


def test_a_program_sees_its_files_where_containers_have_a_folder_of_their_own(
    tmp_path: Path,
) -> None:
    """Somebody's clone is in a folder for temporary files, which is empty in a container."""
    there = Path(FRESH[0]) / "clone/.venv"
    image = Image("c", "c", ("c",), names={"c": there / "bin/c"}, files=(there, Path("/opt/other")))
    found = binds(image, tmp_path)
    assert found[str(there)]["read_only"]
    assert found[str(there)]["source"] == str(there)
    assert "/opt/other" not in found  # the machine's own is seen there


def test_the_files_of_a_command_are_its_whole_environment() -> None:
    image = Images(Catalog(commands=("pytest",)), ()).resolve("pytest")
    for needed in (Path(sys.prefix), Path(sys.base_prefix), Path(msgspec.__file__)):
        assert any(needed.is_relative_to(folder) for folder in image.files)
