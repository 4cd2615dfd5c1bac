"""The scripts of mode Failover: servers that start as replicas without a primary, and sentinels."""

from __future__ import annotations

from .script_parts import (
    APPEND,
    CAN_ASK,
    DROP_SYNCED,
    FIND_DATA,
    IN_TIME,
    KEEP_IDENTITY,
    LIFE,
    SETTINGS,
    TALK,
    WAIT_SAVED,
)

__all__ = [
    "BOOT_SENTINEL",
    "BOOT_SERVER",
    "NO_PRIMARY",
    "READY_SENTINEL",
    "READY_SERVER",
    "STOP_SERVER",
]

NO_PRIMARY = "127.0.0.1"
"""The primary of a server that has none. Nothing listens there, so writes are refused; the port
says whether the server found files (1), none (2), or files of a server that was the primary when it
was stopped (3)."""

_NAMED = r"""
# The reply of a sentinel.
ask_sentinel() { (PORT=${SENTINEL_PORT:-26379}; ask_at "$(cat "$CONFIG/sentinel-host")" "$1"); }

cr=$(printf '\r')

# Whether the sentinels still name this server as the primary.
is_named() {
    for word in $(ask_sentinel "SENTINEL GET-MASTER-ADDR-BY-NAME ${PRIMARY_NAME:-}"); do
        case $word in "$POD_IP"|"$POD_IP$cr") return 0 ;; esac
    done
    return 1
}
"""

BOOT_SERVER = (
    r"""#!/bin/sh
# Starts a server of a replicated database. It never starts as a primary: an empty one would be
# copied by all the others. It has no primary, refuses writes, and no sentinel may promote it, until
# the operator has observed its data and chosen the primary.
set -eu"""
    + LIFE
    + TALK
    + FIND_DATA
    + _NAMED
    + r"""
# Whether there is a replica that they would promote.
is_replaceable() {
    before=
    for word in $(ask_sentinel "SENTINEL REPLICAS $PRIMARY_NAME"); do
        case $before,$word in
            slave-priority*,0|slave-priority*,"0$cr"|slave-priority*,'$'*) ;;
            slave-priority*) return 0 ;;
        esac
        case $word in '$'*) ;; *) before=$word ;; esac
    done
    return 1
}

# Ends the waiting process when nothing is left to wait for. What sentinels say of replicas may be
# old until they have noticed that the primary is down.
watch_sentinels() {
    left=$NOTICE_SECONDS
    while is_named; do
        [ "$left" -gt 0 ] || is_replaceable || break
        left=$((left - 1))
        sleep 1
    done
    kill "$1"
}

# A primary that was killed and listens again at once would count as up for the sentinels for
# half a minute: they replace one that is down within seconds.
# A pod that was created in mode Standalone, and still runs in this one, has no sentinels.
if [ -e server.pid ] && [ -s "$CONFIG/sentinel-host" ] && [ -n "${PRIMARY_NAME:-}" ]; then
    sleep "$FAILOVER_SECONDS" &
    waiting=$!
    watch_sentinels "$waiting" 2>/dev/null &
    watching=$!
    trap 'kill "$waiting" "$watching" 2>/dev/null || :; exit 0' TERM INT
    ! wait "$waiting" 2>/dev/null || say "no replica has taken over; starting"
    kill "$watching" 2>/dev/null || :
    trap 'exit 0' TERM INT
fi

# Writes of this server while another one was the primary are kept, and never served again.
if [ -e put-aside ]; then
    when=$(cat put-aside)
    for file in dump.rdb appendonly.aof appendonlydir; do
        [ ! -e "$file" ] || mv -f "$file" "aside-$when-$file"
    done
    rm -f put-aside led led-before
    say "writes of this server while another one was the primary are kept in $DATA/aside-$when-*"
fi

identity="$IDENTITY $POD_NAME"
found=$(cat identity 2>/dev/null || :)
"""
    + DROP_SYNCED
    + r"""
find_data
if [ "$found" != "$identity" ]; then
    [ -z "$found" ] || { rm -f led led-before; say "this volume was used by another server"; }
"""
    + KEEP_IDENTITY
    + r"""fi
"""
    + APPEND
    + rf"""
# That it was the primary when it was stopped counts until it has a role again.
[ ! -e led ] || mv -f led led-before
no_primary=1
if [ -z "$data" ]; then no_primary=2; elif [ -e led-before ]; then no_primary=3; fi
# No file is named first: CONFIG REWRITE, which sentinels send, changes nothing that the
# next start reads.
set -- --include "$CONFIG/$CONFIG_FILE" --include "$USERS/replication.conf" \
    --aclfile "$USERS/$ACL_FILE" --appendonly "$append" --dir "$DATA" \
    --pidfile "$DATA/server.pid" --logfile "" \
    --replica-announce-ip "$POD_IP" --replica-announce-port "$PORT" \
    --replicaof {NO_PRIMARY} "$no_primary" --replica-priority 0
"""
    + SETTINGS
    + r"""exec "$SERVER" "$@"
"""
)

READY_SERVER = (
    r"""#!/bin/sh
# Ready: a primary, or a replica that has what its primary has. Where the image has no client, a
# listening server is ready.
set -u
"""
    + CAN_ASK
    + r"""[ -n "${found:-}" ] || exit 0
is_ready() {
    answer=$(ask "INFO replication" "INFO persistence") || return 1
    case $answer in *loading:0*) ;; *) return 1 ;; esac
    case $answer in *role:master*|*role:slave*master_link_status:up*) return 0 ;; esac
    return 1
}

not_ready() {
    case $answer in
        *role:slave*loading:0*) printf 'the replica has no link to its primary\n' ;;
        *) printf 'the server does not respond, or is loading its data\n' ;;
    esac
    exit 1
}

# A server that is about to be ready, as when its primary was just named, needs no second probe.
left=4
until is_ready; do
    [ "$left" -gt 0 ] || not_ready
    left=$((left - 1))
    sleep 0.4 2>/dev/null || not_ready
done
# It has a role again: its role before the start no longer counts.
rm -f "$DATA/led-before"
"""
)

STOP_SERVER = (
    r"""#!/bin/sh
# Runs before the server gets SIGTERM. A primary with a replica keeps serving until the
# operator has promoted a replica: nothing that it acknowledged is lost. SE-01
# A primary in memory without a complete replica has the only copy of the data: it waits longer,
# until a replica has it too.
set -u
"""
    + TALK
    + IN_TIME
    + _NAMED
    + r"""
is_followed() {
    case $(ask "INFO replication") in *role:master*state=online*) return 0 ;; esac
    return 1
}

# Whether the data is only in the memory of this primary. The sentinels of a database
# that is deleted or hibernates end with it: where none names this server, no replica will copy it.
is_only_copy() {
    [ "$PERSISTENCE" = none ] || return 1
    answer=$(ask "INFO replication" "INFO keyspace")
    case $answer in *role:master*) ;; *) return 1 ;; esac
    case $answer in *state=online*) return 1 ;; esac
    case $answer in *:keys=*) in_time is_named ;; *) return 1 ;; esac
}

# Waits while something holds, for at most so many seconds.
wait_while() {
    left=$(($2 * 5))
    while "$1" && [ "$left" -gt 0 ]; do
        left=$((left - 1))
        sleep 0.2 2>/dev/null || { sleep 1; left=$((left - 4)); }
    done
}

hand_over() {
    seconds=${HANDOVER_SECONDS:-20}
    wait_while is_followed "$seconds"
    is_only_copy || return 0
    printf 'stop: no replica has the data of this primary yet; waiting for one\n'
    wait_while is_only_copy "$((seconds * 6))"
    wait_while is_followed "$seconds"
}
"""
    + WAIT_SAVED
    + r"""
# Whether the sentinels name another server. The error of a client for a sentinel that does not
# respond has an address in it too, and does not count.
is_replaced() {
    other=
    for word in $(ask_sentinel "SENTINEL GET-MASTER-ADDR-BY-NAME ${PRIMARY_NAME:-}"); do
        word=${word%"$cr"}
        case $word in
            "$POD_IP") return 1 ;;
            *[!0-9a-fA-F.:]*|*:) ;;
            *.*.*.*|*:*:*) other=$word ;;
        esac
    done
    [ -n "$other" ]
}

# A primary that the operator has marked, and the sentinels do not name, accepted writes that no
# other server has: its next start keeps them under another name.
put_aside() {
    case $(ask "INFO replication" "CONFIG GET replica-priority") in
        *role:master*replica-priority*7777*) ;;
        *) return 0 ;;
    esac
    in_time is_replaced || return 0
    { date -u +%Y%m%dT%H%M%SZ 2>/dev/null || printf unknown; } >"$DATA/put-aside.new"
    mv -f "$DATA/put-aside.new" "$DATA/put-aside"
}

# A primary that ends, and that the sentinels have not replaced, leaves a note on its volume: where
# all servers start again, append-only files do not show which server has the newest data.
note_lead() {
    [ "$PERSISTENCE" != none ] || return 0
    case $(ask "INFO replication") in *role:master*) ;; *) return 0 ;; esac
    ! in_time is_replaced || return 0
    : >"$DATA/led"
    sync "$DATA/led" 2>/dev/null || :
}

hand_over
put_aside
note_lead
wait_saved
"""
)

BOOT_SENTINEL = (
    r"""#!/bin/sh
# Starts a sentinel. Its id depends on its pod's number: one that restarts is the one that the
# others know, at another address, and not one more. The operator configures what it monitors,
# and it keeps that in its file as long as the pod exists.
set -eu"""
    + LIFE
    + r"""
id=$(printf '%s%08x' "$SENTINEL_ID" "${POD_NAME##*-}")
if [ -e starting ] && [ -e sentinel.conf ]; then
    say "the last start failed; the file of this sentinel is moved to sentinel.conf.bad"
    mv -f sentinel.conf sentinel.conf.bad
fi
: >starting
if [ ! -s sentinel.conf ]; then
    {
        printf 'port %s\ndir "%s"\nlogfile ""\n' "$PORT" "$DATA"
        printf 'aclfile "%s"\n' "$USERS/$ACL_FILE"
        printf 'sentinel myid %s\n' "$id"
        printf 'sentinel announce-ip "%s"\nsentinel announce-port %s\n' "$POD_IP" "$PORT"
        cat "$USERS/sentinel.conf"
    } >sentinel.conf.new
    mv -f sentinel.conf.new sentinel.conf
fi
# A pod whose node was started again has its files and another address: the others would keep
# asking for its vote at the old one.
announced="sentinel announce-ip \"$POD_IP\""
case $(cat sentinel.conf) in
    *"$announced"*) ;;
    *)
        say "this sentinel announces another address: $POD_IP"
        while IFS= read -r line; do
            case $line in "sentinel announce-ip "*) continue ;; esac
            printf '%s\n' "$line"
        done <sentinel.conf >sentinel.conf.new
        printf '%s\n' "$announced" >>sentinel.conf.new
        mv -f sentinel.conf.new sentinel.conf
        ;;
esac
exec "$SERVER" "$DATA/sentinel.conf" --sentinel
"""
)

READY_SENTINEL = (
    r"""#!/bin/sh
# Ready: the sentinel responds. Its file is valid, since it has started with it.
set -u
"""
    + CAN_ASK
    + r"""[ -n "${found:-}" ] || { rm -f "$DATA/starting"; exit 0; }
case $(ask PING) in *PONG*) rm -f "$DATA/starting"; exit 0 ;; esac
printf 'the sentinel does not respond\n'
exit 1
"""
)
