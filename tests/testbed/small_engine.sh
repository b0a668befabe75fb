#!/usr/bin/env bash
# A second Docker Engine, on a small disk of its own, for as long as standard input stays open:
#
#     small_engine.sh DIRECTORY BYTES
#
# It listens on DIRECTORY/sock and writes its log to DIRECTORY/log; its disk is, for others,
# /proc/PID/root/DIRECTORY/data, PID being this process. When the input ends, as it does when the
# owner dies in whatever way, or after five minutes, the engine ends, its containers with it, and
# DIRECTORY is removed. `tests/support/engines.py` is the convenient way to it. Needs root.

set -euo pipefail

readonly directory=$1 bytes=$2 stage=${3:-first}
# Control groups lie outside of every namespace below; by this name they are found afterwards.
readonly group=${directory##*/}

first() {
    # A network of its own, because `--bridge none` takes the bridge docker0 away from whoever has
    # one. Unmounting is followed, so that nothing outside stays busy because of a copy in here.
    exec unshare --mount --propagation slave --net "$0" "$directory" "$bytes" outside
}

outside() {
    trap clean EXIT
    mkdir "$directory"/{data,run}
    mount -t tmpfs -o "size=$bytes,mode=0711" tmpfs "$directory/data"
    mount -t tmpfs -o size=64m,mode=0711 tmpfs "$directory/run"
    # The settings of this machine's own engine are not for this one, nor is its containerd.
    local hidden
    for hidden in /etc/docker /run/containerd; do
        if [[ -d $hidden ]]; then mount -t tmpfs tmpfs "$hidden"; fi
    done
    # When the first process of a process namespace ends, the kernel kills all others in it.
    unshare --pid --fork --kill-child --mount-proc "$0" "$directory" "$bytes" inside
}

inside() {
    dockerd --host "unix://$directory/sock" --pidfile "$directory/run/pid" \
        --data-root "$directory/data" --exec-root "$directory/run" --storage-driver overlay2 \
        --bridge none --iptables=false --ip-forward=false \
        --exec-opt native.cgroupdriver=cgroupfs --cgroup-parent "/$group" \
        &>"$directory/log" </dev/null &
    local engine=$! second status
    for ((second = 0; second < 300; second++)); do
        if ! kill -0 "$engine" 2>/dev/null; then return; fi
        status=0
        read -r -t 1 _ || status=$?
        # 1 is the end of the input; more than 128, that a second has passed.
        if ((status == 1)); then return; fi
    done
}

clean() {
    umount --lazy "$directory"/{data,run} 2>/dev/null || true
    rm -rf -- "$directory"
    find /sys/fs/cgroup -depth -type d \( -path "*/$group" -o -path "*/$group/*" \) \
        -exec rmdir {} + 2>/dev/null || true
}

"$stage"
