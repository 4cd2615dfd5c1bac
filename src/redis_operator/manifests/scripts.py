"""The two scripts in the pod: how a server starts, and whether it is ready.

POSIX sh that needs no programs but `cat`, `mv` and `sleep`, so any image of the engine will do.
Files are named only through the variables that the pod sets.
"""

from __future__ import annotations

__all__ = ["BOOT", "READY"]

BOOT = r"""#!/bin/sh
# Starts the server. Never lets it be who it cannot be: an identity without its data would make
# replicas drop theirs, and somebody else's identity would confuse the whole cluster.
set -eu
umask 077
cd "$DATA"

say() { printf 'boot: %s\n' "$1"; }

# What nodes.conf says of this server: sets me, owns (a primary with slots) and has_replica.
read_identity() {
    me= owns= has_replica=
    while read -r id _ flags _ _ _ _ _ slots; do
        case ",$flags," in *,myself,*)
            me=$id
            case ",$flags," in *,master,*) [ -z "$slots" ] || owns=yes ;; esac ;;
        esac
    done <nodes.conf
    while read -r _ _ flags primary _; do
        case ",$flags," in
            *,noaddr,*|*,fail,*) ;;
            *,slave,*) [ "$primary" != "$me" ] || has_replica=yes ;;
        esac
    done <nodes.conf
}

has_dataset() {
    [ "$PERSISTENCE" != none ] || return 1
    for file in dump.rdb appendonly.aof appendonlydir/*.manifest; do
        [ ! -e "$file" ] || return 0
    done
    return 1
}

identity="$IDENTITY $POD_NAME"
if [ -e nodes.conf ] && [ "$(cat identity 2>/dev/null || :)" != "$identity" ]; then
    say "this volume was used by another server; starting with an identity of its own"
    mv -f nodes.conf nodes.conf.foreign
fi
printf '%s\n' "$identity" >identity

if [ "$PERSISTENCE" = none ] && [ -e dump.rdb ]; then
    say "this database keeps nothing on disk; a file left by a sync is not its data"
    mv -f dump.rdb dump.rdb.old
fi

if [ -e nodes.conf ]; then
    read_identity
    gone=
    [ -z "$owns" ] || has_dataset || gone=yes
    if [ -n "$owns" ] && [ -n "$has_replica" ] && { [ -n "$gone" ] || [ -e server.pid ]; }; then
        # A server that listens here at once, whoever it says it is, would be copied by the replica.
        say "this primary ended unsaved; its replica has ${FAILOVER_SECONDS} s to take over"
        sleep "$FAILOVER_SECONDS" &
        waiting=$!
        trap 'kill "$waiting" 2>/dev/null || :; exit 0' TERM INT
        wait "$waiting" || :
        trap - TERM INT
    fi
    if [ -n "$gone" ]; then
        say "the data of this primary are gone; starting anew, so that nobody copies nothing"
        mv -f nodes.conf nodes.conf.lost
    fi
fi

set -- "$CONFIG/$CONFIG_FILE" --include "$USERS/replication.conf" --aclfile "$USERS/$ACL_FILE" \
    --dir "$DATA" --pidfile "$DATA/server.pid" --logfile "" --cluster-announce-ip "$POD_IP"
# Servers before redis 7.0 drop every message of one that has a hostname.
if [ -n "${ANNOUNCE_HOSTNAME:-}" ] && [ ! -e "$CONFIG/without-hostnames" ]; then
    set -- "$@" --cluster-announce-hostname "$ANNOUNCE_HOSTNAME"
fi
[ -z "${ANNOUNCE_NAME:-}" ] || set -- "$@" --cluster-announce-human-nodename "$ANNOUNCE_NAME"
exec "$SERVER" "$@"
"""

READY = r"""#!/bin/sh
# Ready: the cluster serves, and this server has what its primary has. Asks with the command line
# client of the image, or with bash where there is none; with neither, a listening server is ready.
set -u

questions() {
    printf 'AUTH exporter %s\r\n' "$(cat "$USERS/exporter")"
    printf 'CLUSTER INFO\r\nINFO replication\r\nQUIT\r\n'
}

ask() {
    for client in valkey-cli redis-cli; do
        if command -v "$client" >/dev/null 2>&1; then
            questions | "$client" -h "$POD_IP" -p "$PORT"
            return
        fi
    done
    if command -v bash >/dev/null 2>&1; then
        questions | bash -c 'exec 3<>"/dev/tcp/$POD_IP/$PORT" && cat >&3 && cat <&3'
        return
    fi
    printf 'cluster_state:ok role:master'
}

answer=$(ask 2>&1) || exit 1
case $answer in *cluster_state:ok*) ;; *) exit 1 ;; esac
case $answer in *role:slave*) ;; *role:master*) exit 0 ;; *) exit 1 ;; esac
case $answer in *master_link_status:up*) exit 0 ;; esac
exit 1
"""
