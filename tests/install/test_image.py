"""The image that is made without Docker."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import platform
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("image", ROOT / "tools" / "image.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def wheel(folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def documents(archive: Path) -> dict[str, Any]:
    with tarfile.open(archive) as packed:
        return {
            member.name: file.read()
            for member in packed
            if (file := packed.extractfile(member)) is not None
        }


@pytest.mark.slow
def test_the_image_runs_the_operator_as_nobody_and_is_always_the_same(
    tool: ModuleType, tmp_path: Path
) -> None:
    base = tmp_path / "base.tar"
    with tarfile.open(base, "w") as made:
        made.addfile(tarfile.TarInfo("usr"))
    built = wheel(tmp_path)
    outputs = [tmp_path / "one.tar", tmp_path / "two.tar"]
    for output in outputs:
        words = ["--wheel", built, "--base", base, "--output", output, "--name", "own:1"]
        tool.main([*map(str, words), "--offline"])
    assert outputs[0].read_bytes() == outputs[1].read_bytes()

    files = documents(outputs[0])
    [manifest] = json.loads(files["manifest.json"])
    assert manifest["RepoTags"] == ["own:1"]
    config = json.loads(files[manifest["Config"]])
    assert config["config"]["User"] == "65532:65532"
    assert config["config"]["Entrypoint"] == ["redis-operator"]
    layers = [hashlib.sha256(files[name]).hexdigest() for name in manifest["Layers"]]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{name}" for name in layers]

    program = tmp_path / "program.tar"
    program.write_bytes(files[manifest["Layers"][-1]])
    with tarfile.open(program) as packed:
        names = packed.getnames()
        assert {(m.uid, m.gid, m.mtime) for m in packed} == {(0, 0, 0)}
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # since Python 3.11.4
        packed.extractall(tmp_path / "root")
    packages = tmp_path / "root/usr/local/lib/python3.11/dist-packages"
    if sys.version_info[:2] == (3, 11):
        assert any(
            name.endswith("redis_operator/cli/__pycache__/main.cpython-311.pyc") for name in names
        )
    done = subprocess.run(
        [sys.executable, str(tmp_path / "root/usr/local/bin/redis-operator"), "run", "--version"],
        env={"PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() in built.name


def test_packages_of_this_machine_are_no_base_for_another(
    tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = "arm64" if platform.machine() == "x86_64" else "amd64"
    words = ["--wheel", "some-1.whl", "--output", str(tmp_path / "x"), "--architecture", other]
    with pytest.raises(SystemExit):
        tool.main(words)
    assert f"--base is needed: packages of this machine are not for {other}" in (
        capsys.readouterr().err
    )


def test_a_layout_to_push_names_what_it_holds(tool: ModuleType, tmp_path: Path) -> None:
    layer = tmp_path / "layer.tar"
    with tarfile.open(layer, "w") as made:
        made.addfile(tarfile.TarInfo("usr"))
    tool.pack([layer], "own:1", "arm64", tmp_path / "image.tar", "oci")
    files = documents(tmp_path / "image.tar")
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    [described] = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(files[f"blobs/{described['digest'].replace(':', '/')}"])
    for part in (described, manifest["config"], *manifest["layers"]):
        content = files[f"blobs/{part['digest'].replace(':', '/')}"]
        assert f"sha256:{hashlib.sha256(content).hexdigest()}" == part["digest"]
        assert len(content) == part["size"]
    config = json.loads(files[f"blobs/{manifest['config']['digest'].replace(':', '/')}"])
    assert config["architecture"] == "arm64"
