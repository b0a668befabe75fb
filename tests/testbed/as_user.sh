#!/usr/bin/env bash
# Run a command as a user who is not root and may use the Docker daemon; needs root:
#
#     as_user.sh .venv/bin/python -m pytest tests/providers/docker
#     as_user.sh --no-docker COMMAND...     # as one who may not use the daemon
#
# The command begins in the checkout and sees it at its usual path, but as a copy that it may write
# to, with the same .venv, read-only; also where only root may enter the directories above. Mounts
# do that which nobody else sees and which are gone afterwards. HOME and TMPDIR are new and are
# removed again, and so is every process that is left.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
readonly root

# -- outside: choose the user, clean up afterwards ------------------------------------------------

choose_uid() {
    local uid=$((61184 + $$ % 4000)) # systemd's range for users that exist for a while
    while getent passwd "$uid" >/dev/null ||
        stat -c %u /proc/[0-9]* 2>/dev/null | grep -x "$uid" >/dev/null; do
        uid=$((uid + 1))
    done
    echo "$uid"
}

socket_group() {
    local host=${DOCKER_HOST:-unix:///var/run/docker.sock}
    local socket=${host#unix://}
    if [[ $host == unix://* && -S $socket ]]; then stat -c %g "$socket"; fi
}

clean() {
    # -1 is every process that this user may signal, which are the user's own.
    setpriv --reuid "$uid" --regid "$uid" --clear-groups bash -c 'kill -KILL -1' || true
    rm -rf -- "$work"
}

outside() {
    local groups
    groups=$(socket_group)
    if [[ ${1:-} == --no-docker ]]; then
        groups=
        shift
    fi
    uid=$(choose_uid)
    # In /tmp whatever TMPDIR says, because another user must get there.
    work=$(mktemp -d /tmp/openenv-user.XXXXXX)
    trap clean EXIT
    chmod 755 "$work"
    mkdir -m 700 "$work"/{home,tmp}
    chown "$uid:$uid" "$work"/{home,tmp}
    # Unmounting outside is followed, so that nothing stays busy there because of a copy in here.
    unshare --mount --propagation slave "$0" --inside "$work" "$uid" "$groups" "$@"
}

# -- inside: make everything reachable, become the user -------------------------------------------

# What the command must reach, a path a line, outer directories before those within.
needed() {
    local python
    {
        echo "$root"
        for python in "$root/.venv/bin/python" "$1"; do
            if [[ ${python##*/} == python* && -x $python ]]; then
                "$python" -c 'import sys; print(sys.prefix, sys.base_prefix, sep="\n")'
            fi
        done
    } | sort -u
}

# The outermost directory above $1 that the user may not enter; nothing where there is none.
obstacle() {
    local way='' part
    local -a parts
    IFS=/ read -r -a parts <<<"${1#/}"
    for part in "${parts[@]::${#parts[@]}-1}"; do
        way+=/$part
        if [[ ! -d $way ]]; then return; fi
        if (((8#$(stat -c %a "$way") & 1) == 0)); then
            echo "$way"
            return
        fi
    done
}

show() {
    local path=$1 kept=$2 uid=$3 closed
    closed=$(obstacle "$path")
    if [[ -n $closed ]]; then mount -t tmpfs -o mode=755 tmpfs "$closed"; fi
    if [[ $path == "$root" ]]; then
        mkdir -p "$path"
        mount -t tmpfs -o "mode=755,uid=$uid,gid=$uid" tmpfs "$path"
        tar -C "$kept" --exclude ./.git --exclude './.venv*' --exclude './.*_cache' \
            --exclude ./.hypothesis --exclude ./outputs --exclude __pycache__ \
            --owner "$uid" --group "$uid" --mode u+rwX,go+rX --create . | tar -C "$path" --extract
    elif [[ ! -d $path ]]; then
        mkdir -p "$path"
        mount --rbind "$kept" "$path"
        mount -o remount,bind,ro "$path"
    fi
}

inside() {
    local work=$1 uid=$2 groups=$3
    shift 3
    local -a paths
    local number
    umask 022
    mapfile -t paths < <(needed "$1")

    # Hold on to everything before anything is covered.
    for number in "${!paths[@]}"; do
        mkdir -p "$work/kept/$number"
        mount --rbind "${paths[number]}" "$work/kept/$number"
    done
    for number in "${!paths[@]}"; do
        show "${paths[number]}" "$work/kept/$number" "$uid"
        umount --recursive --lazy "$work/kept/$number"
    done

    # Some programs ask who they are.
    cp /etc/passwd "$work/passwd"
    echo "openenv-user:x:$uid:$uid::$work/home:/bin/sh" >>"$work/passwd"
    mount --bind "$work/passwd" /etc/passwd

    local -a membership=(--clear-groups)
    if [[ -n $groups ]]; then membership=(--groups "$groups"); fi
    cd "$root"
    exec setpriv --reuid "$uid" --regid "$uid" "${membership[@]}" \
        env --unset XDG_RUNTIME_DIR --unset XDG_CACHE_HOME --unset XDG_CONFIG_HOME \
        HOME="$work/home" TMPDIR="$work/tmp" USER=openenv-user LOGNAME=openenv-user "$@"
}

if [[ ${1:-} == --inside ]]; then
    shift
    inside "$@"
else
    outside "$@"
fi
