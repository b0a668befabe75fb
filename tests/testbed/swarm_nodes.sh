#!/usr/bin/env bash
# Docker Engines that can see each other, each a machine of its own as far as networks go, for as
# long as standard input stays open:
#
#     swarm_nodes.sh DIRECTORY SUBNET COUNT
#
# Engine N is called nodeN, has the address SUBNET.N (SUBNET is three numbers, such as 10.231.7),
# listens on DIRECTORY/N/sock and logs to DIRECTORY/N/log. This machine is SUBNET.254, and reaches
# them all; they reach each other, and nothing else. When the input ends, as it does when the owner
# dies in whatever way, the engines end, with containers, networks and DIRECTORY.
# `tests/testbed/swarm.py` makes a swarm of them. Needs root.

set -euo pipefail

readonly directory=$1 subnet=$2 count=$3 stage=${4:-first}
# Control groups lie outside of every namespace below; by this name they are found afterwards.
readonly group=${directory##*/}
# A link's name has at most 15 characters.
readonly link=oesw${subnet//./}

first() {
    # The switch between the engines lies in a network of its own: with its last process go the
    # switch and the link to it, whoever is killed. Unmounting is followed, so that nothing outside
    # stays busy because of a copy in here.
    exec {outer}</proc/self/ns/net
    exec unshare --mount --propagation slave --net \
        "$0" "$directory" "$subnet" "$count" outside "$outer"
}

outside() {
    local outer=$1
    trap clean EXIT
    # The settings of this machine's own engine are not for these, nor is its containerd.
    local hidden
    for hidden in /etc/docker /run/containerd; do
        if [[ -d $hidden ]]; then mount -t tmpfs tmpfs "$hidden"; fi
    done
    ip link set lo up
    ip link add switch type bridge
    ip link set switch up
    nsenter --net="/proc/self/fd/$outer" sh -euc "
        ip link add '$link' type veth peer name uplink netns $$
        ip address add '$subnet.254/24' dev '$link'
        ip link set '$link' up"
    ip link set uplink master switch up
    exec {outer}<&-
    # When the first process of a process namespace ends, the kernel kills all others in it.
    unshare --pid --fork --kill-child --mount-proc \
        "$0" "$directory" "$subnet" "$count" inside || true
}

inside() {
    local number pid
    for ((number = 1; number <= count; number++)); do
        mkdir -p "$directory/$number"
        # The control groups stay in sight, as they would not under `ip netns exec`.
        unshare --mount --net --uts "$0" "$directory" "$subnet" "$count" node "$number" \
            &>"$directory/$number/log" </dev/null &
        pid=$!
        while [[ /proc/$pid/ns/net -ef /proc/self/ns/net ]]; do sleep 0.01; done
        ip link add "port$number" type veth peer name eth0 netns "$pid"
        ip link set "port$number" master switch up
    done
    while read -r -t 3600 _; do :; done # until the input ends
}

node() {
    local number=$1 place=$directory/$1
    hostname "node$number"
    ip link set lo up
    until ip link show eth0 &>/dev/null; do sleep 0.01; done
    # No default route: look-ups of images fail at once.
    ip address add "$subnet.$number/24" dev eth0
    ip link set eth0 up
    # In memory: images come in faster, and go with the node.
    mkdir "$place"/{data,run}
    mount -t tmpfs -o mode=0711 tmpfs "$place/data"
    mount -t tmpfs -o size=64m,mode=0711 tmpfs "$place/run"
    exec dockerd --host "unix://$place/sock" --pidfile "$place/pid" \
        --data-root "$place/data" --exec-root "$place/run" \
        --exec-opt native.cgroupdriver=cgroupfs --cgroup-parent "/$group/$number"
}

clean() {
    rm -rf -- "$directory"
    find /sys/fs/cgroup -depth -type d \( -path "*/$group" -o -path "*/$group/*" \) \
        -exec rmdir {} + 2>/dev/null || true
}

"$stage" "${@:5}"
