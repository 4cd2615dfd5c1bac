"""What the processes of a local cluster wrote, as it is and as it grows."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kubelocal.instance import Instance

__all__ = ["components", "follow", "recent"]

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z ")
_LOOK_SECONDS = 0.2


def components(instance: Instance) -> dict[str, Path]:
    """Return the log of each process, by the name it is asked for."""
    own = ("supervisor", "control-plane", "node-agent", "operator")
    return {**{name: instance.log_of(name) for name in own}, "keeper": instance.keeper_log}


def recent(files: dict[str, Path], count: int) -> Iterator[str]:
    """Yield the last lines of some logs in the order of time, the lines of a traceback together."""
    entries = [
        (stamp, name, lines)
        for name, path in files.items()
        for stamp, lines in _entries(_last_lines(path, count))
    ]
    entries.sort(key=lambda entry: entry[0])  # stable: what has the same time stays in order
    shown: deque[str] = deque(maxlen=count)
    for _, name, lines in entries:
        shown.extend(_named(name, line, files) for line in lines)
    yield from shown


def _last_lines(path: Path, count: int) -> Sequence[str]:
    try:
        with path.open(errors="replace") as file:
            return deque((line.rstrip("\n") for line in file), maxlen=count)
    except FileNotFoundError:
        return ()


def _entries(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Group lines that belong together: a line without a time continues the one before."""
    stamp = ""
    group: list[str] = []
    for line in lines:
        found = _TIME.match(line)
        if found and group:
            yield stamp, group
            group = []
        stamp = found[0] if found else stamp
        group.append(line)
    if group:
        yield stamp, group


def _named(name: str, line: str, files: dict[str, Path]) -> str:
    return line if len(files) == 1 else f"{name:<13} | {line}"


def follow(
    files: dict[str, Path], show: Callable[[str], None], *, goes_on: Callable[[], bool]
) -> None:
    """Show lines as they are written, until stopped; a log that was truncated is read from its
    start."""
    places = {name: path.stat().st_size if path.exists() else 0 for name, path in files.items()}
    while goes_on():
        for name, path in files.items():
            if not path.exists():
                continue
            size = path.stat().st_size
            start = places[name] if size >= places[name] else 0
            with path.open("rb") as file:
                file.seek(start)
                whole = file.read().rpartition(b"\n")[0]
            places[name] = start + len(whole) + (1 if whole else 0)
            for line in whole.decode(errors="replace").splitlines():
                show(_named(name, line, files))
        time.sleep(_LOOK_SECONDS)
