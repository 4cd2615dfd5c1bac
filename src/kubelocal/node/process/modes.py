"""Finds which of the three ways to mount this machine allows, by trying them."""

from __future__ import annotations

import secrets
from pathlib import Path

from msgspec import Struct

from kubelocal.node.errors import ModeError, StartError
from kubelocal.node.process.client import Description, Processes
from kubelocal.node.process.mounts import Mode, Mount, tree_of

__all__ = ["ModeReport", "choose_mode"]

_BEST_FIRST = (Mode.NAMESPACE, Mode.USER_NAMESPACE, Mode.MAPPING)


class ModeReport(Struct, frozen=True):
    """The chosen mode, and why those before it are not possible."""

    mode: Mode
    refusals: tuple[tuple[Mode, str], ...] = ()

    def describe(self) -> str:
        """Return the mode and its reasons in one line."""
        text = {
            Mode.NAMESPACE: "containers have mount namespaces of their own",
            Mode.USER_NAMESPACE: "containers have user and mount namespaces of their own",
            Mode.MAPPING: "mount paths are replaced in commands, variables and files",
        }[self.mode]
        why = "; ".join(f"{mode.value} is not possible: {reason}" for mode, reason in self.refusals)
        return f"{self.mode.value}: {text}" + (f" ({why})" if why else "")


async def choose_mode(processes: Processes, folder: Path, *, forced: Mode | None) -> ModeReport:
    """Return the best mode that works here, or the forced one.

    Errors: ModeError when the forced mode does not work, with the error of the machine.
    """
    refusals: list[tuple[Mode, str]] = []
    for mode in (forced,) if forced is not None else _BEST_FIRST:
        problem = await _limitation(processes, folder, mode)
        if problem is None:
            return ModeReport(mode, tuple(refusals))
        refusals.append((mode, problem))
    raise ModeError(
        f"mode {refusals[0][0].value} is not possible on this machine: {refusals[0][1]}; "
        "leave the mode out to have the best one chosen"
    )


async def _limitation(processes: Processes, folder: Path, mode: Mode) -> str | None:
    """Return why a mode does not work here, or None: a trial container mounts a folder."""
    if mode is Mode.MAPPING:
        return None
    trial = folder / "trial"
    for name in ("stage", "volume"):
        (trial / name).mkdir(parents=True, exist_ok=True)
    identity = f"trial-{secrets.token_hex(8)}"
    mounts = [
        Mount(trial / "volume", "/data"),
        Mount(trial / "volume", "/etc/kubelocal-trial"),
    ]
    description = Description(
        id=identity,
        argv=("true",),
        env={"PATH": "/usr/bin:/bin"},
        cwd="/data",
        isolation=mode.isolation,
        tree=tree_of(
            mounts, stage=trial / "stage", hostname="trial", working_dir="/data", read_only=False
        ),
        log=str(trial / "log"),
        guest=True,
    )
    description.write(trial / "spec.json")
    end = processes.watch(identity)
    try:
        await processes.start(trial / "spec.json")
        code = (await end).code
    except StartError as error:
        return f"{error.stage}: {error}"
    finally:
        processes.unwatch(identity)
    return None if code == 0 else f"a trial container ended with {code}"
