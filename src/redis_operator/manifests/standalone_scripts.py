"""The scripts of mode Standalone: how its server starts, whether it is ready, how it is let go."""

from __future__ import annotations

from .script_parts import (
    APPEND,
    CAN_ASK,
    DROP_SYNCED,
    FIND_DATA,
    KEEP_IDENTITY,
    LIFE,
    SETTINGS,
    TALK,
    WAIT_SAVED,
)

__all__ = ["BOOT_ALONE", "DATA_MISSING", "READY_ALONE", "STOP_ALONE"]

DATA_MISSING = "the files that this server had are gone"
"""What a server says that does not start because of it; the operator reads it from the pod."""

BOOT_ALONE = (
    r"""#!/bin/sh
# Starts the one server of a database. Never lets it serve nothing in the place of what it had.
set -eu"""
    + LIFE
    + FIND_DATA
    + r"""
identity="$IDENTITY $POD_NAME"
found=$(cat identity 2>/dev/null || :)
"""
    + DROP_SYNCED
    + rf"""
find_data
# A volume that no server has used yet has no identity. An append-only file is there from the first
# start; a snapshot is not before the first one was written.
if [ -e "$CONFIG/hold" ] && [ -z "$data" ]; then
    case $found,$PERSISTENCE in
        ,*|*,aof|*,both)
            say "{DATA_MISSING}; not starting, so that an empty server does not take their place"
            exit 1 ;;
    esac
fi
if [ "$found" != "$identity" ]; then
    [ -z "$found" ] || say "this volume was used by another server; its data are served"
"""
    + KEEP_IDENTITY
    + r"""fi
"""
    + APPEND
    + r"""
# A copy of a server elsewhere takes no writes: it follows nobody until the operator has it follow.
if [ -n "$data" ]; then nobody=1; else nobody=2; fi
set -- "$CONFIG/$CONFIG_FILE" --include "$USERS/replication.conf" --aclfile "$USERS/$ACL_FILE" \
    --appendonly "$append" --dir "$DATA" --pidfile "$DATA/server.pid" --logfile ""
[ ! -e "$CONFIG/follow" ] || set -- "$@" --replicaof 127.0.0.1 "$nobody"
"""
    + SETTINGS
    + r"""exec "$SERVER" "$@"
"""
)

READY_ALONE = (
    r"""#!/bin/sh
# Ready: the server takes commands. Where nobody can be asked, a listening server is ready.
set -u
"""
    + CAN_ASK
    + r"""[ -n "${found:-}" ] || exit 0
case $(ask "INFO persistence") in *loading:0*) exit 0 ;; esac
exit 1
"""
)

STOP_ALONE = (
    r"""#!/bin/sh
# Runs before the server is told to stop; told, it writes what it has and ends.
set -u
"""
    + TALK
    + WAIT_SAVED
    + r"""wait_saved
"""
)
