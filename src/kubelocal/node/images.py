"""Images without a registry: the program on this machine that an image name stands for.

An image is identified by the last part of its name, whatever registry or organisation comes before
it, and by the version in its tag. The catalog of images is an argument. Programs come from folders
that the user names, from PATH, and from wheels that contain them; several versions can be
installed. References to images are parsed here.
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

from kubelocal.node.errors import ImageError, StartError

__all__ = [
    "Catalog",
    "Image",
    "Images",
    "Program",
    "ProgramImage",
    "Reference",
    "find_programs",
    "parse_reference",
    "plain_start",
    "version_key",
    "version_of_tag",
]

_VERSION_LINE = re.compile(r"(?:v=|\s)v?(\d+\.\d+(?:\.\d+)?)")
_PLAIN = ("busybox", "alpine", "debian", "ubuntu", "bash")


# The shell script that runs a program in a container: from its name there, the quoted program, the
# pod's address and the image's version.
Start = Callable[[str, str, str, str], str]


def plain_start(name: str, program: str, address: str, version: str) -> str:  # noqa: ARG001 - a Start
    """Start the program as it is."""
    return f'#!/bin/sh\nexec {program} "$@"\n'


class ProgramImage(Struct, frozen=True):
    """An image whose program may be on this machine in several versions.

    The first of `programs` is searched for, runs by default and is asked for its version; the
    others are more names of it in the container. `tools` likewise name a command line that comes
    with it; where there is none, that of another image of the catalog is used.
    """

    name: str
    programs: tuple[str, ...]
    tools: tuple[str, ...] = ()
    wheel: str = ""  # a Python package that contains the program
    wheel_folder: str = ""  # where in it; {machine} is the processor
    suffixes: tuple[str, ...] = ()  # a first argument with such an end is for the program
    working_dir: str = "/"
    volumes: tuple[str, ...] = ()


class Catalog(Struct, frozen=True):
    """The known images, beside those of a plain shell, and how their programs are started."""

    images: tuple[ProgramImage, ...] = ()
    commands: tuple[str, ...] = ()  # commands of this Python environment that are images as well
    variable: str = ""  # of the environment: folders with more programs
    start: Start = plain_start

    def of(self, name: str) -> ProgramImage | None:
        """Return the image with a name."""
        return next((image for image in self.images if image.name == name), None)


class Program(Struct, frozen=True):
    """One version of an image's program on this machine, or why it cannot be used."""

    image: str
    version: str
    path: Path
    tool: Path | None = None
    problem: str = ""


class Image(Struct, frozen=True):
    """The programs of an image, for PATH, and its default command.

    `names` maps the names of programs in the container to the programs; `start` returns the script
    that runs one. `files` are folders of the machine that a program needs at their own paths.
    """

    text: str
    identity: str
    default: tuple[str, ...]
    entry: str = ""
    working_dir: str = "/"
    volumes: tuple[str, ...] = ()
    names: dict[str, Path] = field(default_factory=dict)
    version: str = ""
    suffixes: tuple[str, ...] = ()
    start: Start = plain_start
    files: tuple[Path, ...] = ()

    def command(self, command: Sequence[str] | None, args: Sequence[str] | None) -> list[str]:
        """Return the command line for a container's `command` and `args`."""
        if command:
            return [*command, *(args or ())]
        if not args:
            return list(self.default)
        first = args[0]
        if self.entry and (first.startswith("-") or first.endswith(self.suffixes)):
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
        return "", f"{program} --version says {line!r}, which contains no version"
    return match[1], ""


def _explain(program: Path, text: str) -> str:
    if "GLIBC" in text:
        return f"{program} was built for another C library than this machine's: {text}"
    if "Exec format error" in text:
        return f"{program} was built for another processor than {platform.machine()}"
    if "No such file" in text:
        return f"{program} needs a program loader that this machine lacks (built for musl?)"
    return text


# An image, its program, its tool, and the version in the name of its folder.
Found = tuple[ProgramImage, Path, Path | None, str]


def _wheels(catalog: Catalog) -> Iterable[Found]:
    machine = "x86_64" if platform.machine() in ("x86_64", "amd64") else platform.machine()
    for image in catalog.images:
        package = importlib.util.find_spec(image.wheel) if image.wheel else None
        if package is None or package.origin is None:
            continue
        place = Path(package.origin).parent / image.wheel_folder.format(machine=machine)
        program = place / image.programs[0]
        if program.is_file():
            yield image, program, _beside(program, image), ""


def _on_path(catalog: Catalog) -> Iterable[Found]:
    for image in catalog.images:
        program = shutil.which(image.programs[0])
        tool = shutil.which(image.tools[0]) if image.tools else None
        if program is not None:
            yield image, Path(program), Path(tool) if tool else None, ""


def _in_folders(catalog: Catalog, folders: Iterable[Path]) -> Iterable[Found]:
    for folder in folders:
        for image in catalog.images:
            for program in sorted(folder.glob(f"{image.name}/*/bin/{image.programs[0]}")):
                yield image, program, _beside(program, image), program.parts[-3]


def _beside(program: Path, image: ProgramImage) -> Path | None:
    tool = program.with_name(image.tools[0]) if image.tools else None
    return tool if tool is not None and tool.is_file() else None


def find_programs(
    catalog: Catalog, folders: Iterable[Path], *, ask: Callable[[Path], str]
) -> list[Program]:
    """Find the programs of this machine; `ask` returns the line that one prints as its version.

    Given folders come before PATH, and PATH before wheels: the first of a version wins.
    """
    found: list[Program] = []
    for image, path, tool, folder_version in _in_folders(catalog, folders):
        version, problem = _version_of(path, ask)
        found.append(Program(image.name, version or folder_version, path, tool, problem))
    for image, path, tool, _ in (*_on_path(catalog), *_wheels(catalog)):
        version, problem = _version_of(path, ask)
        if problem or not any(p.image == image.name and p.version == version for p in found):
            found.append(Program(image.name, version, path, tool, problem))
    return found


class Images:
    """The images that can be run here."""

    def __init__(self, catalog: Catalog, programs: Iterable[Program]) -> None:
        self._catalog = catalog
        self._programs = sorted(
            programs, key=lambda p: (p.image, version_key(p.version)), reverse=True
        )

    @classmethod
    def discover(
        cls, catalog: Catalog, folders: Iterable[Path] = (), *, ask: Callable[[Path], str]
    ) -> Images:
        """Find programs in the given folders, in those of the environment, PATH and wheels."""
        named = os.environ.get(catalog.variable, "") if catalog.variable else ""
        places = [*folders, *(Path(part) for part in named.split(os.pathsep) if part)]
        return cls(catalog, find_programs(catalog, places, ask=ask))

    @property
    def programs(self) -> Sequence[Program]:
        """All found programs, usable or not, newest first."""
        return self._programs

    def available(self) -> list[str]:
        """Return the names of the images that can be run."""
        found = [f"{p.image}:{p.version}" for p in self._programs if not p.problem]
        return [*found, *_PLAIN, "pause", *self._catalog.commands]

    def resolve(self, text: str) -> Image:
        """Return the image of an image name.

        Errors: ImageError with `InvalidImageName` for an invalid reference, or `ErrImagePull`
        with a message that lists the available images.
        """
        reference = parse_reference(text)
        known = self._catalog.of(reference.name)
        if known is not None:
            return self._program_image(reference, known)
        if reference.name in _PLAIN:
            return _plain_image(reference)
        if reference.name == "pause":
            return _pause_image(reference)
        if reference.name in self._catalog.commands:
            return _command_image(reference, self._catalog.start)
        raise self._unknown(reference)

    def _program_image(self, reference: Reference, known: ProgramImage) -> Image:
        wanted = version_of_tag(reference.tag)
        candidates = [p for p in self._programs if p.image == known.name]
        for program in candidates:
            if not program.problem and _matches(program.version, wanted):
                return self._image_of(reference, known, program)
        broken = [p for p in candidates if p.problem and _matches(p.version, wanted)]
        raise self._unknown(reference, "; ".join(p.problem for p in broken))

    def _image_of(self, reference: Reference, known: ProgramImage, program: Program) -> Image:
        names = dict.fromkeys(known.programs, program.path)
        tool = program.tool or self._any_tool()
        if tool is not None:
            names |= dict.fromkeys(known.tools, tool)
        return Image(
            text=reference.text,
            identity=_identity(known.name, program.version, str(program.path)),
            default=(known.programs[0],),
            entry=known.programs[0],
            working_dir=known.working_dir,
            volumes=known.volumes,
            names=names,
            version=program.version,
            suffixes=known.suffixes,
            start=self._catalog.start,
        )

    def _any_tool(self) -> Path | None:
        return next((p.tool for p in self._programs if p.tool is not None and not p.problem), None)

    def _unknown(self, reference: Reference, problem: str = "") -> ImageError:
        listed = ", ".join(self.available())
        detail = f"; {problem}" if problem else ""
        return ImageError(
            "ErrImagePull",
            f'failed to pull image "{reference.text}": this machine has no program for that '
            f"image{detail}. Available: {listed}. Others come from a folder given with --images "
            "(NAME/VERSION/bin) or from PATH",
        )


def _matches(version: str, wanted: str) -> bool:
    return not wanted or not version or (version + ".").startswith(wanted + ".")


def _identity(*parts: str) -> str:
    return "sha256:" + hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _plain_image(reference: Reference) -> Image:
    return Image(reference.text, _identity(reference.name), default=("sh",))


def _pause_image(reference: Reference) -> Image:
    script = "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"
    return Image(reference.text, _identity("pause"), default=("sh", "-c", script))


def _command_image(reference: Reference, start: Start) -> Image:
    name = reference.name
    program = Path(sys.executable).with_name(name)
    return Image(
        reference.text,
        _identity(name, str(program)),
        default=(name,),
        entry=name,
        names={name: program},
        start=start,
        files=tuple(_python_files()),
    )


def _python_files() -> list[Path]:
    """Return the folders of this Python environment, without nested ones."""
    known = {Path(sys.prefix), Path(sys.base_prefix), *(Path(entry) for entry in sys.path if entry)}
    found = sorted(folder for folder in known if folder.is_dir())
    return [one for one in found if not any(other in one.parents for other in found)]


_REFERENCE = re.compile(
    r"(?P<path>[a-zA-Z0-9][\w.-]*(?::\d+)?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?"
    r"(?:@(?P<digest>[a-z0-9]+:[0-9a-f]{32,}))?"
)
_VERSION = re.compile(r"v?(\d+(?:\.\d+)*)")


class Reference(Struct, frozen=True):
    """An image reference: the last part of its path, its tag and its digest."""

    text: str
    name: str
    tag: str
    digest: str


def parse_reference(text: str) -> Reference:
    """Parse an image reference; an invalid one is `InvalidImageName`."""
    match = _REFERENCE.fullmatch(text.strip())
    if match is None:
        raise ImageError(
            "InvalidImageName",
            f'Failed to apply default image tag "{text}": couldn\'t parse image name "{text}": '
            "invalid reference format",
        )
    path, tag = match["path"], match["tag"] or ""
    name = path.rpartition("/")[2]
    if "/" not in path and ":" in name:  # `name:5` alone is a tag, not a port
        name, _, tag = name.partition(":")
    return Reference(text, name, tag, match["digest"] or "")


def version_of_tag(tag: str) -> str:
    """Return the version of a tag (`9.1-alpine` is 9.1), or "" for the newest."""
    match = _VERSION.match(tag)
    return match[1] if match else ""


def version_key(version: str) -> tuple[int, ...]:
    """Return a key that orders versions by number."""
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
