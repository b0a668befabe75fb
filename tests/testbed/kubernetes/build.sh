#!/usr/bin/env bash
# Build the programs of a Kubernetes cluster from Debian's source package:
#
#     build.sh DIRECTORY
#
# DIRECTORY gets kube-apiserver, kube-controller-manager, kube-scheduler and kubelet, version 1.20.2.
# Needs root, apt-get, 3 GB of disk meanwhile, and about ten minutes of a processor; does nothing
# where they are there already. etcd and what else a cluster needs is installed from Debian.

set -euo pipefail

readonly directory=$(realpath -m "${1:?the directory that gets the programs}")
readonly programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet)
readonly work=$directory/build

missing() {
    local program
    for program in "${programs[@]}"; do
        if [[ ! -x $directory/$program ]]; then return 0; fi
    done
    return 1
}

install_packages() {
    export DEBIAN_FRONTEND=noninteractive
    apt-get update --quiet >/dev/null
    apt-get install --yes --quiet --no-install-recommends \
        golang-go dpkg-dev make rsync jq etcd-server socat conntrack openssl >/dev/null
}

# The source package, through a list of sources of its own: this machine's stays as it is.
fetch_source() {
    if [[ -d $work/src ]]; then return; fi
    mkdir -p "$work"/apt/{parts,lists/partial,cache/archives/partial}
    sed 's/^Types: deb$/Types: deb-src/' /etc/apt/sources.list.d/debian.sources \
        >"$work/apt/parts/source.sources"
    cat >"$work/apt/apt.conf" <<EOF
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$work/apt/parts";
Dir::State::lists "$work/apt/lists";
Dir::Cache "$work/apt/cache";
APT::Sandbox::User "root";
EOF
    export APT_CONFIG=$work/apt/apt.conf
    apt-get update --quiet >/dev/null
    apt-get source --quiet --download-only kubernetes >/dev/null
    dpkg-source -x kubernetes_*.dsc src >/dev/null
    unset APT_CONFIG
}

compile() {
    cd "$work/src"
    export GOPATH=$PWD/.go GOCACHE=$work/cache HOME=$work CGO_ENABLED=0 GO111MODULE=off
    export KUBE_GIT_VERSION=v1.20.2 KUBE_GIT_TREE_STATE=clean KUBE_GIT_COMMIT=debian
    mkdir -p .go/src/k8s.io
    if [[ ! -L .go/src/k8s.io/kubernetes ]]; then ln -s ../../.. .go/src/k8s.io/kubernetes; fi
    make WHAT="${programs[*]/#/cmd/}" &>"$work/make.log" || {
        tail -n 20 "$work/make.log" >&2
        exit 1
    }
    cp "${programs[@]/#/_output/bin/}" "$directory/"
}

if ! missing; then
    echo "build: $directory has them already"
    exit
fi
mkdir -p "$work"
cd "$work"
install_packages
fetch_source
compile
rm -rf "$work"
echo "build: done, in $directory"
