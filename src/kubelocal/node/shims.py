"""The bin folder of a pod: programs under their usual names, with what a private network gives.

In a cluster a pod has a network of its own, so a server binds to every address and a client finds
it on localhost. Here pods share the machine's loopback; the shims bind servers to the pod's own
address and point clients without a host at it, so that boot scripts work unchanged.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from .images import Image
from .references import version_key

__all__ = ["shim_text", "write_shims"]

_SERVER = """\
#!/bin/sh
# Binds {name} to the pod's own address, unless the command line chooses one itself.
case "$#:$1" in
1:-v|1:--version|1:-h|1:--help|1:--check-system|*:--test-memory) exec {program} "$@" ;;
esac
wild=yes last=
for word in "$@"; do
  case "$word" in
  --*) last=$word ;;
  '*'|-::*|::|0.0.0.0|'* -::*'|'0.0.0.0 ::'|'') ;;
  *) [ "$last" != --bind ] || wild= ;;
  esac
done
[ -z "$wild" ] || set -- "$@" --bind {address}{source}
exec {program} "$@"{sentinel}
"""

_CLI = """\
#!/bin/sh
# Talks to the pod's own address where a private network would have had localhost.
n=$# host=
while [ "$n" -gt 0 ]; do
  word=$1; shift; n=$((n - 1))
  case "$host:$word" in
  yes:127.0.0.1|yes:localhost) word={address} ;;
  esac
  case "$word" in -h) host=yes ;; *) host= ;; esac
  set -- "$@" "$word"
done
exec {program} -h {address} "$@"
"""

_PLAIN = """\
#!/bin/sh
exec {program} "$@"
"""


def shim_text(name: str, program: Path, *, address: str, version: str) -> str:
    """Return the script that stands for a program in a pod with this address."""
    quoted = shlex.quote(str(program))
    if name.endswith(("-server", "-sentinel")):
        # From 7.0 on the source of outgoing connections is a setting of its own; before, it is
        # the first bound address. Without it peers would see every pod as 127.0.0.1.
        source = f" --bind-source-addr {address}" if version_key(version) >= (7,) else ""
        sentinel = " --sentinel" if name.endswith("-sentinel") else ""
        return _SERVER.format(
            name=name,
            program=quoted,
            address=address,
            source=source,
            sentinel=sentinel,
        )
    if name.endswith("-cli"):
        return _CLI.format(program=quoted, address=address)
    return _PLAIN.format(program=quoted)


def write_shims(
    folder: Path, image: Image, *, address: str, programs: Mapping[str, Path] | None = None
) -> None:
    """Write the programs of an image into a folder that goes first on the container's PATH.

    `programs` says where the container sees them, when that is not where they are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, program in (programs or image.names).items():
        shim = folder / name
        shim.write_text(shim_text(name, program, address=address, version=image.version))
        shim.chmod(0o755)
