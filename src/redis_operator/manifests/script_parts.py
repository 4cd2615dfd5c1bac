"""Parts of the scripts that modes share: talking to servers, files, settings, shutdown."""

from __future__ import annotations

__all__ = [
    "APPEND",
    "CAN_ASK",
    "DROP_SYNCED",
    "FIND_DATA",
    "IN_TIME",
    "KEEP_IDENTITY",
    "LIFE",
    "SETTINGS",
    "TALK",
    "WAIT_SAVED",
]

TALK = r"""
# Sends its input to the server at an address, and prints the replies. Uses the command line
# client of the image, or bash where there is none; fails where there is neither.
talk() {
    for client in valkey-cli redis-cli; do
        if command -v "$client" >/dev/null 2>&1; then
            "$client" -h "$1" -p "$PORT"
            return
        fi
    done
    HOST=$1 bash -c '
        exec 3<>"/dev/tcp/$HOST/$PORT" && cat >&3 || exit
        [ "$PORT" = "${SENTINEL_PORT:-}" ] || exec cat <&3
        # Sentinels of newer versions do not know QUIT, and leave the connection open.
        while IFS= read -r -t 3 line <&3; do
            printf "%s\n" "$line"
            case $line in *QUIT*) exit ;; esac
        done'
}

# The replies of the server at an address to the given commands.
ask_at() {
    host=$1
    shift
    {
        printf 'AUTH exporter %s\r\n' "$(cat "$USERS/exporter")"
        printf '%s\r\n' "$@" QUIT
    } | talk "$host" 2>&1
}

ask() { ask_at "$POD_IP" "$@"; }

login() {
    while read -r word value; do
        [ "$word" != masterauth ] || printf 'AUTH replication %s\r\n' "$value"
    done <"$USERS/replication.conf"
}
"""

IN_TIME = r"""
# Whether something holds, found out within three seconds: an address that is gone may not respond.
in_time() {
    "$@" >/dev/null 2>&1 &
    asking=$!
    { sleep 3; kill "$asking"; } >/dev/null 2>&1 &
    timer=$!
    held=0
    wait "$asking" 2>/dev/null || held=1
    kill "$timer" 2>/dev/null || :
    return "$held"
}
"""

LIFE = r"""
# The first process of a container is not ended by signals that it does not handle: the kubelet
# would wait until the end of the grace period.
trap 'exit 0' TERM INT
umask 077
cd "$DATA"

say() { printf 'boot: %s\n' "$1"; }
"""

FIND_DATA = r"""
# An append-only file that was completely written at least once: before, there is no manifest, or
# (before redis 7.0) the file is empty.
has_aof() {
    for file in appendonly.aof appendonlydir/*.manifest; do
        [ ! -s "$file" ] || return 0
    done
    return 1
}

aof_is_newer() {
    for file in appendonly.aof appendonlydir/appendonly.aof.*; do
        [ ! "$file" -nt dump.rdb ] || return 0
    done
    return 1
}

# Which files have the data: aof, rdb or none at all. While persistence is changed, those of the old
# kind are complete and those of the new kind may not be; a server reads one kind and ignores the
# other, and would be empty.
find_data() {
    data=
    case $PERSISTENCE in
        none) ;;
        rdb)
            if [ -s dump.rdb ] && ! { has_aof && aof_is_newer; }; then data=rdb
            elif has_aof; then data=aof
            fi ;;
        *)
            if has_aof; then data=aof
            elif [ -s dump.rdb ]; then data=rdb
            elif [ -e appendonly.aof ]; then data=aof
            fi ;;
    esac
}
"""

DROP_SYNCED = r"""
if [ "$PERSISTENCE" = none ] && [ -e dump.rdb ]; then
    say "this database has no persistence; a file left by a sync is not loaded"
    mv -f dump.rdb dump.rdb.old
fi
"""

APPEND = r"""
case $data,$PERSISTENCE in
    aof,*|,aof|,both) append=yes ;;
    *) append=no ;;
esac
if [ "$data" = rdb ]; then
    # Append-only files beside it are older or were never finished: they must not be loaded.
    for file in appendonly.aof appendonlydir; do
        [ ! -e "$file" ] || { rm -rf "$file.old"; mv -f "$file" "$file.old"; }
    done
fi
"""

SETTINGS = (
    "# Settings that need a start are part of the pod: the file above is that of all pods.\n"
    r"""if [ -n "${SETTINGS:-}" ]; then
    printf '%s\n' "$SETTINGS" >settings.conf
    set -- "$@" --include "$DATA/settings.conf"
fi
"""
)

WAIT_SAVED = r"""
# A server that gets the signal to end while it writes its first append-only file ignores it, and is
# killed at the end of the grace period.
wait_saved() {
    left=200
    while [ "$left" -gt 0 ]; do
        case $(ask "INFO persistence") in
            *aof_rewrite_in_progress:1*|*aof_rewrite_scheduled:1*) ;;
            *) return ;;
        esac
        left=$((left - 1))
        sleep 1
    done
}

"""

CAN_ASK = (
    TALK
    + r"""
for program in valkey-cli redis-cli bash; do
    ! command -v "$program" >/dev/null 2>&1 || found=yes
done
"""
)
"""Sets `found` where the image has a client or bash to ask a server with."""

KEEP_IDENTITY = r"""    printf '%s\n' "$identity" >identity.new
    sync identity.new 2>/dev/null || :
    mv -f identity.new identity
"""
"""Writes the owner of the volume, so that a power cut leaves either the old mark or the new one."""
