"""Make the operator's image without Docker: a base and a wheel become an archive to load or push.

    python tools/image.py --wheel dist/redis_operator-0.1.0-py3-none-any.whl --output image.tar

The base is made from Debian's packages of Python, without a shell, on a Debian whose apt offers
that Python; or it is any root file system with it, given as archives (`--base`). The archive is one
for `docker load` and containerd, or an OCI layout to push. The same input gives the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import platform
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
USER = "65532:65532"
PYTHON = "3.11"  # Debian 12's
DEBIAN = (
    *("libc6", "libgcc-s1", "libssl3", "zlib1g", "libbz2-1.0", "liblzma5", "libffi8", "libexpat1"),
    *("libuuid1", "libcrypt1", "libsqlite3-0", "ca-certificates"),
    *(f"python{PYTHON}-minimal", f"libpython{PYTHON}-minimal", f"libpython{PYTHON}-stdlib"),
)
CERTIFICATES = "usr/share/ca-certificates/"
BUNDLE = "etc/ssl/certs/ca-certificates.crt"  # where clients of stores for backups look
LEFT_OUT = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian", "etc")
MERGED = ("bin", "sbin", "lib", "lib64")  # links into usr
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
SCRIPT = f"#!/usr/bin/python{PYTHON}\nfrom redis_operator.cli.main import main\n\nmain()\n"


def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Forget who packed a file, and when."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def link(name: str, target: str) -> tarfile.TarInfo:
    """A symbolic link."""
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode = tarfile.SYMTYPE, target, 0o777
    return made


def debian_base(target: Path) -> None:
    """A root file system of Debian's Python and the libraries it needs, nothing else."""
    with tempfile.TemporaryDirectory() as folder, tarfile.open(target, "w") as base:
        fetch = ["apt-get", "--quiet=2", "-o", "APT::Sandbox::User=root", "download", *DEBIAN]
        subprocess.run(fetch, cwd=folder, check=True)
        for name in MERGED:
            base.addfile(link(name, f"usr/{name}"))
        base.addfile(link("usr/bin/python3", f"python{PYTHON}"))
        known: set[str] = set(MERGED)
        certificates: list[bytes] = []
        for package in sorted(Path(folder).glob("*.deb")):
            for member, content in unpacked(package):
                if member.name.startswith(CERTIFICATES) and content is not None:
                    certificates.append(content.read())
                elif member.name not in known:
                    known.add(member.name)
                    base.addfile(member, content)
        if not certificates:
            sys.exit("ca-certificates has no certificates: no store of backups could be trusted")
        base.addfile(*bundle(certificates))


def bundle(certificates: Sequence[bytes]) -> tuple[tarfile.TarInfo, io.BytesIO]:
    """The authorities that Debian trusts, as its own tool would put them together."""
    content = b"".join(one.rstrip() + b"\n" for one in certificates)
    made = tarfile.TarInfo(BUNDLE)
    made.size, made.mode = len(content), 0o644
    return made, io.BytesIO(content)


def unpacked(package: Path) -> Iterator[tuple[tarfile.TarInfo, io.BufferedIOBase | None]]:
    """What is in a Debian package, where it is in a merged /usr."""
    made = subprocess.run(
        ["dpkg-deb", "--fsys-tarfile", str(package)], check=True, capture_output=True
    )
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
        for member in archive:
            name = member.name.removeprefix("./").strip("/.")
            if not name or name.startswith(LEFT_OUT):
                continue
            if name.split("/", 1)[0] in MERGED:
                name = f"usr/{name}"
            member.name = name
            if member.islnk():
                member.linkname = member.linkname.removeprefix("./")
            content = archive.extractfile(member) if member.isreg() else None
            yield plain(member), content  # type: ignore[misc]  # typeshed: IO[bytes]


def program_layer(wheel: Path, target: Path, architecture: str, options: Sequence[str]) -> None:
    """The wheel and what it needs, compiled, as files below the base's own."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        packages = root / "usr" / "local" / "lib" / f"python{PYTHON}" / "dist-packages"
        install(wheel, packages, architecture, options)
        script = root / "usr" / "local" / "bin" / "redis-operator"
        script.parent.mkdir(parents=True)
        script.write_text(SCRIPT)
        script.chmod(0o755)
        with tarfile.open(target, "w") as layer:
            for path in sorted(root.rglob("*")):
                name = str(path.relative_to(root))
                layer.add(path, name, recursive=False, filter=plain)


def install(wheel: Path, packages: Path, architecture: str, options: Sequence[str]) -> None:
    """Unpack the wheel with what it needs; compile it if this is the same Python."""
    uv = subprocess.run(
        ["sh", str(ROOT / "tools" / "get-uv")], check=True, capture_output=True, text=True
    ).stdout.strip()
    machine = next(m for m, a in ARCHITECTURES.items() if a == architecture)
    subprocess.run(
        [
            *(uv, "pip", "install", "--quiet", "--target", str(packages)),
            *("--python-version", PYTHON, "--only-binary", ":all:"),
            *("--python-platform", f"{machine}-unknown-linux-gnu"),
            *("--constraint", str(ROOT / "requirements" / "dev.txt")),  # the versions under test
            *options,
            str(wheel),
        ],
        check=True,
    )
    for made in (packages / "bin", packages / ".lock"):
        subprocess.run(["rm", "-rf", str(made)], check=True)
    if f"{sys.version_info.major}.{sys.version_info.minor}" != PYTHON:
        print(f"not compiled: this is Python {platform.python_version()}, not {PYTHON}")
        return
    words = ["-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    place = ["-s", str(packages), "-p", f"/usr/local/lib/python{PYTHON}/dist-packages"]
    subprocess.run([sys.executable, *words, *place, str(packages)], check=True)


def digest_of(path: Path) -> str:
    """The name of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def config_of(layers: Sequence[Path], architecture: str) -> dict[str, Any]:
    """How the image runs."""
    return {
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": USER,
            "Env": ["PATH=/usr/local/bin:/usr/bin", "PYTHONDONTWRITEBYTECODE=1"],
            "Entrypoint": ["redis-operator"],
            "Cmd": ["run"],
            "WorkingDir": "/",
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest_of(p)}" for p in layers]},
    }


def pack(layers: Sequence[Path], name: str, architecture: str, target: Path, layout: str) -> None:
    """The archive, as `docker load` and containerd read it, or as an OCI layout to push."""
    kind = "application/vnd.oci.image"
    blobs: dict[str, bytes | Path] = {f"blobs/sha256/{digest_of(path)}": path for path in layers}
    places = list(blobs)

    def blob(value: Any, media: str) -> dict[str, Any]:
        text = json.dumps(value).encode()
        made = hashlib.sha256(text).hexdigest()
        blobs[f"blobs/sha256/{made}"] = text
        return {"mediaType": f"{kind}.{media}", "digest": f"sha256:{made}", "size": len(text)}

    config = blob(config_of(layers, architecture), "config.v1+json")
    listed = [
        {
            "mediaType": f"{kind}.layer.v1.tar",
            "digest": f"sha256:{place.rpartition('/')[2]}",
            "size": path.stat().st_size,
        }
        for place, path in zip(places, layers, strict=True)
    ]
    texts: dict[str, Any] = {}
    if layout == "oci":
        media = "manifest.v1+json"
        manifest = {"schemaVersion": 2, "mediaType": f"{kind}.{media}", "config": config}
        described = blob({**manifest, "layers": listed}, media)
        described["annotations"] = {"org.opencontainers.image.ref.name": name.rpartition(":")[2]}
        texts["oci-layout"] = {"imageLayoutVersion": "1.0.0"}
        texts["index.json"] = {"schemaVersion": 2, "manifests": [described]}
    else:
        place = f"blobs/sha256/{config['digest'].partition(':')[2]}"
        texts["manifest.json"] = [{"Config": place, "RepoTags": [name], "Layers": places}]
    files = {**blobs, **{place: json.dumps(text).encode() for place, text in texts.items()}}
    with tarfile.open(target, "w") as archive:
        for place, content in files.items():
            add_file(archive, place, content)


def add_file(archive: tarfile.TarFile, place: str, content: bytes | Path) -> None:
    """Add a file by its content."""
    member = tarfile.TarInfo(place)
    if isinstance(content, bytes):
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
        return
    member.size = content.stat().st_size
    with content.open("rb") as file:
        archive.addfile(member, file)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the archive that the arguments ask for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--wheel", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--name", default="", help="NAME:TAG; default: redis-operator:VERSION")
    parser.add_argument("--base", type=Path, action="append", help="a root file system, as tar")
    parser.add_argument(
        "--architecture",
        choices=sorted(ARCHITECTURES.values()),
        default=ARCHITECTURES.get(platform.machine(), "amd64"),
    )
    parser.add_argument("--format", choices=["docker", "oci"], default="docker")
    parser.add_argument("--offline", action="store_true", help="the wheel alone, without others")
    given = parser.parse_args(arguments)
    here = ARCHITECTURES.get(platform.machine(), "")
    if not given.base and given.architecture != here:
        parser.error(f"--base is needed: packages of this machine are not for {given.architecture}")
    name = given.name or f"redis-operator:{given.wheel.name.split('-')[1]}"
    options = ["--no-deps", "--offline"] if given.offline else []
    with tempfile.TemporaryDirectory() as folder:
        layers = list(given.base or ())
        if not layers:
            layers.append(Path(folder) / "base.tar")
            debian_base(layers[0])
        program = Path(folder) / "program.tar"
        program_layer(given.wheel, program, given.architecture, options)
        given.output.parent.mkdir(parents=True, exist_ok=True)
        pack([*layers, program], name, given.architecture, given.output, given.format)
    print(f"{given.output}: {name}, {given.output.stat().st_size / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
