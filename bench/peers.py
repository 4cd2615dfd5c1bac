"""Programs that we are compared with: found on this machine, or brought by its package manager.

Packages of Debian are downloaded by name and unpacked below `build/peers`, never installed. What
cannot be had is said in one line, with how to get it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from bench.missing import Missing

__all__ = ["prepare_engines", "redis_cli", "valkey_cli"]

_KEPT = Path(__file__).parent.parent / "build" / "peers"
_PACKAGES = ("redis-server", "redis-tools", "libjemalloc2", "liblzf1", "libatomic1")
_PROGRAMS = ("redis-server", "redis-cli")
_GET_SECONDS = 120.0


def prepare_engines() -> None:
    """Let the measurements find Debian's Redis where this machine has none of version 7."""
    brought = _brought()
    if brought is not None:
        known = os.environ.get("REDIS_OPERATOR_ENGINES", "")
        places = [*(known.split(os.pathsep) if known else []), str(brought / "redis-server")]
        os.environ["REDIS_OPERATOR_ENGINES"] = os.pathsep.join(places)


def redis_cli() -> str:
    """The newest redis-cli there is: on PATH, Debian's, or the one beside Python."""
    brought = _brought()
    beside = Path(sys.executable).parent / "redis-cli"
    found = shutil.which("redis-cli") or (str(brought / "redis-cli") if brought else None)
    if found is None and beside.exists():
        found = str(beside)
    if found is None:
        raise Missing("there is no redis-cli: apt-get install redis-tools")
    return found


def valkey_cli() -> str | None:
    """A valkey-cli of version 9, which knows atomic migration; no registry has it as a program."""
    return os.environ.get("BENCH_VALKEY_CLI") or shutil.which("valkey-cli")


@lru_cache(maxsize=1)
def _brought() -> Path | None:
    """Unpack Debian's packages once; None where that cannot be done."""
    programs = _KEPT / "bin"
    if (programs / _PROGRAMS[-1]).exists():
        return programs
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return None
    _KEPT.mkdir(parents=True, exist_ok=True)
    print("getting redis-server and redis-tools from Debian ...", file=sys.stderr, flush=True)
    try:
        subprocess.run(
            ["apt-get", "download", *_PACKAGES],
            cwd=_KEPT, capture_output=True, check=True, timeout=_GET_SECONDS,
        )  # fmt: skip
        for package in _KEPT.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", str(package), str(_KEPT)], check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    _wrap(programs)
    return programs


def _wrap(programs: Path) -> None:
    """Write starters that find the libraries that came along."""
    programs.mkdir(exist_ok=True)
    libraries = next(_KEPT.glob("usr/lib/*-linux-gnu"), _KEPT)
    for name in _PROGRAMS:
        starter = programs / name
        starter.write_text(
            f"#!/bin/sh\nLD_LIBRARY_PATH='{libraries}' exec '{_KEPT}/usr/bin/{name}' \"$@\"\n"
        )
        starter.chmod(0o755)
