"""The scripts of mode Cluster: start, readiness probe and preStop hook of a server.

POSIX sh that needs no programs but `cat`, `mv`, `rm` and `sleep`: any image of the engine works.
With `od`, two servers that were killed at once can compare their snapshots. Files are named only
through the variables that the pod sets.
"""

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

__all__ = ["BOOT", "READY", "STOP"]

BOOT = (
    r"""#!/bin/sh
# Starts the server. Never with a node id that is not its own: an id without its data would make
# replicas drop theirs, and the node id of another server would confuse the whole cluster.
set -eu"""
    + LIFE
    + TALK
    + IN_TIME
    + r"""
# What nodes.conf says of this server: sets me, here (its address), owns (the slots of a primary)
# and its replicas.
read_identity() {
    me= here= owns= replicas=
    while read -r id address flags _ _ _ _ _ slots; do
        case ",$flags," in *,myself,*)
            me=$id
            here=${address%:*}
            case ",$flags," in *,master,*) owns=$slots ;; esac ;;
        esac
    done <nodes.conf
    while read -r _ address flags primary _; do
        case ",$flags," in
            *,noaddr,*|*,fail,*) ;;
            *,slave,*) [ "$primary" != "$me" ] || replicas="$replicas ${address%:*}" ;;
        esac
    done <nodes.conf
}

# The bytes of the snapshot's header, as numbers.
header() { [ "$data" != rdb ] || printf '%s ' $(od -An -v -tu1 -N 1024 dump.rdb 2>/dev/null || :); }

# What the header of the snapshot has under a name that is given in bytes, or nothing.
# A text has its length before it (here always below 64), a number a mark of its size.
saved() {
    rest=${snapshot#*" $1 "}
    [ "$rest" != "$snapshot" ] || return 0
    set -- $rest
    case $1 in
        192) printf '%s' "$2" ;;
        193) printf '%s' "$(($2 + 256 * $3))" ;;
        194) printf '%s' "$(($2 + 256 * $3 + 65536 * $4 + 16777216 * $5))" ;;
        *)
            left=$1
            while [ "$left" -gt 0 ]; do
                shift
                printf "\\$(($1 / 64))$(($1 / 8 % 8))$(($1 % 8))"
                left=$((left - 1))
            done ;;
    esac
}

# The value of a line of INFO.
field() {
    rest=${2#*"$1:"}
    [ "$rest" = "$2" ] || printf '%s' "${rest%%[!0-9a-z]*}"
}

# Compares the snapshot of a replica that restarted with the own one. Of the same history, the one
# with the higher offset is newer: this server starts if it has it, else the best replica leads.
# Where that cannot be known, or the replica follows another primary now, it gets its time.
compare() {
    offset=$(field slave_repl_offset "$2")
    case $2 in *"myself,slave $me "*) ;; *) offset= ;; esac
    if [ -z "$offset" ] || [ -z "$mine" ] || [ "$(field master_replid "$2")" != "$history" ]; then
        unknown=yes
        return 1
    fi
    [ "$offset" -gt "$mine" ] || return 0
    if [ "$offset" -gt "$furthest" ]; then
        furthest=$offset
        best=$1
    fi
    return 1
}

# Makes the replica with the furthest snapshot lead: its data is newer, and it is never
# elected by itself. Not while another one may be ahead of it: one that lives and has in memory
# what no snapshot has, or one that is unknown. One that is silent has half of the time;
# at its end this server would start with even older data.
let_lead() {
    [ -n "$best" ] && [ -z "$unknown" ] || return 0
    [ -z "$silent" ] || [ "$((rounds * 2))" -gt "$FAILOVER_SECONDS" ] || return 0
    { login; printf 'CLUSTER FAILOVER FORCE\r\nQUIT\r\n'; } | talk "$best" >/dev/null || :
}

# Whether a replica at an address follows this server and has data.
has_copy() {
    case $(ask_at "$1" "INFO replication" "INFO keyspace" "CLUSTER NODES") in
        *role:slave*:keys=*"myself,slave $me "*) return 0 ;;
    esac
    return 1
}

# Whether any replica has the data. They follow this address, whatever listens here: they would copy
# an empty server.
is_copied() {
    for address in $replicas; do
        ! in_time has_copy "$address" || return 0
    done
    return 1
}

# Sets leader and led (its epoch) if a replica says that it owns exactly our slots now.
find_leader() {
    leader= led=
    [ -e leading ] || return 0
    while read -r id _ flags _ _ _ number _ slots; do
        case ",$flags," in *,myself,*master,*) ;; *) continue ;; esac
        [ "$slots" != "$owns" ] || leader=$id led=$number
    done <leading
}

# Lets this server start as the replica of the leader, as it would become after any other failover.
# Before it hears from the leader it could take the slots back, with its own data, and writes that
# were acknowledged meanwhile would be lost: its epoch may be the higher one, if it was taken right
# before the end; or it collides with that of another primary, and the next one is higher.
follow_leader() {
    cat nodes.conf >nodes.conf.before
    while read -r id address flags primary sent heard number link slots; do
        case $id in
            "$me") set -- "${flags%master*}slave${flags##*master}" "$leader" "$number" "" ;;
            "$leader") set -- master - "$led" " $owns" ;;
            *)
                printf '%s\n' "$id $address $flags $primary $sent $heard $number $link $slots"
                continue ;;
        esac
        printf '%s\n' "$id $address $1 $2 $sent $heard $3 $link$4"
    done <nodes.conf.before >nodes.conf.new
    mv -f nodes.conf.new nodes.conf
}

# Ends the waiting process once a replica says that it leads, or all say that they cannot. Its end
# is not waited for: an address that does not respond must not delay the start.
# A replica that has restarted and had no link since is never elected by itself. What it has on disk
# this server has too, if it appends every write before it acknowledges it; or neither has data.
watch_replicas() {
    snapshot=" $(header)"
    history=$(saved "114 101 112 108 45 105 100")
    mine=$(saved "114 101 112 108 45 111 102 102 115 101 116")
    rounds=0
    while sleep 1; do
        able= unknown= silent= best= furthest=0
        rounds=$((rounds + 1))
        for address in $replicas; do
            answer=$(ask_at "$address" "INFO replication" "CLUSTER NODES") || :
            case $answer in
                *role:master*)
                    printf '%s\n' "$answer" >leading || :
                    kill "$1"
                    return ;;
                *role:slave*master_link_down_since_seconds:-1*)
                    [ "$data" != rdb ] || compare "$address" "$answer" || able=yes ;;
                *role:slave*) able=yes unknown=yes ;;
                *) able=yes silent=yes ;;
            esac
        done
        let_lead
        case $able,$data,$PERSISTENCE in ,aof,*|,rdb,*|,*,none) kill "$1"; return ;; esac
    done
}
"""
    + FIND_DATA
    + r"""
identity="$IDENTITY $POD_NAME"
if [ -e nodes.conf ] && [ "$(cat identity 2>/dev/null || :)" != "$identity" ]; then
    say "this volume was used by another server; starting with its own node id"
    mv -f nodes.conf nodes.conf.foreign
fi
if [ "$(cat identity 2>/dev/null || :)" != "$identity" ]; then
"""
    + KEEP_IDENTITY
    + r"""fi
"""
    + DROP_SYNCED
    + r"""
find_data
if [ -e nodes.conf ]; then
    read_identity
    gone=
    [ -z "$owns" ] || [ -n "$data" ] || gone=yes
    wait=
    [ ! -e server.pid ] || [ -n "$gone" ] || wait=yes
    # Its replica would copy any server that listens at this address. At another one it starts as
    # a new node, which no server knows.
    [ -z "$gone" ] || [ "$here" != "$POD_IP" ] || wait=yes
    if [ -n "$wait" ] && [ -n "$owns" ] && [ -n "$replicas" ]; then
        say "this primary ended without saving; its replica has ${FAILOVER_SECONDS} s to take over"
        rm -f leading
        sleep "$FAILOVER_SECONDS" &
        waiting=$!
        watch_replicas "$waiting" 2>/dev/null &
        watching=$!
        trap 'kill "$waiting" "$watching" 2>/dev/null || :; exit 0' TERM INT
        ! wait "$waiting" 2>/dev/null ||
            say "no replica has taken over within ${FAILOVER_SECONDS} s; starting"
        kill "$watching" 2>/dev/null || :
        trap 'exit 0' TERM INT
        find_leader
        if [ -z "$gone" ] && [ -n "$leader" ]; then
            say "a replica leads with epoch $led; starting as its replica"
            follow_leader
        fi
    fi
    if [ -n "$gone" ] && [ "$here" = "$POD_IP" ] && is_copied; then
        # Where no majority elects it, the operator makes it lead, or asks a person to decide.
        say "a replica has the data of this primary and does not lead; waiting until it does"
        while is_copied; do sleep 1; done
    fi
    if [ -n "$gone" ]; then
        say "the data of this primary is gone; starting as a new node, so that replicas keep theirs"
        mv -f nodes.conf nodes.conf.lost
    fi
fi
"""
    + APPEND
    + r"""
set -- "$CONFIG/$CONFIG_FILE" --include "$USERS/replication.conf" --aclfile "$USERS/$ACL_FILE" \
    --appendonly "$append" --dir "$DATA" --pidfile "$DATA/server.pid" --logfile "" \
    --cluster-announce-ip "$POD_IP"
"""
    + SETTINGS
    + r"""# Servers before redis 7.0 drop every message of one that has a hostname.
if [ -n "${ANNOUNCE_HOSTNAME:-}" ] && [ ! -e "$CONFIG/without-hostnames" ]; then
    set -- "$@" --cluster-announce-hostname "$ANNOUNCE_HOSTNAME"
fi
[ -z "${ANNOUNCE_NAME:-}" ] || set -- "$@" --cluster-announce-human-nodename "$ANNOUNCE_NAME"
exec "$SERVER" "$@"
"""
)

READY = (
    r"""#!/bin/sh
# Ready: the cluster serves, and this server has what its primary has. Where the image has no
# client, a listening server is ready.
set -u
"""
    + CAN_ASK
    + r"""[ -n "${found:-}" ] || exit 0
not_ready() { printf '%s\n' "$1"; exit 1; }
answer=$(ask "CLUSTER INFO" "INFO replication") || not_ready "the server does not respond"
case $answer in *cluster_state:ok*) ;; *) not_ready "cluster_state is not ok (CLUSTERDOWN)" ;; esac
case $answer in *role:master*|*role:slave*master_link_status:up*) exit 0 ;; esac
not_ready "the replica has no link to its primary"
"""
)

STOP = (
    r"""#!/bin/sh
# Runs before the server gets SIGTERM. A primary with slots and a replica keeps serving until
# a replica has taken over: nothing that it acknowledged is lost. The operator starts the
# switchover, and knows when the last election was; if it is down, this script asks the
# replica. CL-19, CL-23
set -u
"""
    + TALK
    + r"""
leads() {
    case $(ask "INFO replication") in *role:master*state=online*) ;; *) return 1 ;; esac
    ask "CLUSTER NODES" | while read -r _ _ flags _ _ _ _ _ slots; do
        case ",$flags," in *,myself,*) [ -z "$slots" ] || printf yes ;; esac
    done | { read -r owns || :; [ -n "$owns" ]; }
}

# Waits until this server has no replica any more, for so many seconds.
wait_led() {
    left=$(($1 * 5))
    while leads; do
        [ "$left" -gt 0 ] || return 1
        left=$((left - 1))
        sleep 0.2 2>/dev/null || { sleep 1; left=$((left - 4)); }
    done
}

# The address of a replica, as the cluster knows it.
follower() {
    nodes=$(ask "CLUSTER NODES")
    me=$(printf '%s\n' "$nodes" | while read -r id _ flags _; do
        case ",$flags," in *,myself,*) printf '%s' "$id" ;; esac
    done)
    printf '%s\n' "$nodes" | while read -r _ address flags primary _ _ _ link _; do
        case ",$flags,$link," in
            *fail*|*handshake*|*noaddr*|*disconnected*) ;;
            *,slave,*) [ "$primary" != "$me" ] || printf '%s\n' "${address%:*}" ;;
        esac
    done
}

hand_over() {
    ! wait_led "$HANDOVER_SECONDS" || return 0
    host=
    for host in $(follower); do break; done
    [ -n "$host" ] || return 0
    printf 'stop: no replica has taken over; asking %s\n' "$host"
    {
        login
        printf 'CLUSTER FAILOVER\r\nQUIT\r\n'
    } | talk "$host" >/dev/null
    wait_led 10 || :
}
"""
    + WAIT_SAVED
    + r"""hand_over
wait_saved
"""
)
