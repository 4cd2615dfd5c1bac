"""The scripts of mode Standalone: start, readiness probe and preStop hook of its server."""

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
"""The message of a server that does not start because of it; the operator reads it from the pod."""

BOOT_ALONE = (
    r"""#!/bin/sh
# Starts the one server of a database. Never starts empty where it had data.
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
            say "{DATA_MISSING}; not starting, so that an empty server does not replace it"
            exit 1 ;;
    esac
fi
if [ "$found" != "$identity" ]; then
    [ -z "$found" ] || say "this volume was used by another server; its data is served"
"""
    + KEEP_IDENTITY
    + r"""fi
"""
    + APPEND
    + r"""
# A copy of an external server accepts no writes: it has no primary until the operator sets it.
if [ -n "$data" ]; then no_primary=1; else no_primary=2; fi
set -- "$CONFIG/$CONFIG_FILE" --include "$USERS/replication.conf" --aclfile "$USERS/$ACL_FILE" \
    --appendonly "$append" --dir "$DATA" --pidfile "$DATA/server.pid" --logfile ""
[ ! -e "$CONFIG/follow" ] || set -- "$@" --replicaof 127.0.0.1 "$no_primary"
"""
    + SETTINGS
    + r"""exec "$SERVER" "$@"
"""
)

READY_ALONE = (
    r"""#!/bin/sh
# Ready: the server accepts commands. Where the image has no client, a listening server is ready.
set -u
"""
    + CAN_ASK
    + r"""[ -n "${found:-}" ] || exit 0
case $(ask "INFO persistence") in *loading:0*) exit 0 ;; esac
printf 'the server does not respond, or is loading its data\n'
exit 1
"""
)

STOP_ALONE = (
    r"""#!/bin/sh
# Runs before the server gets SIGTERM, with which it saves its data and ends.
set -u
"""
    + TALK
    + WAIT_SAVED
    + r"""wait_saved
"""
)
