#!/usr/bin/env bash
# Small virtual machines, for what cannot be done to the machine that tests run on: power cuts, a clock that jumps, a full
# disk, a home folder on NFS that several machines use. They are kernels that run as processes (user-mode Linux), up in four
# seconds, and need nothing of the processor. Root on Debian 12; half a GB of disk. .ci/run does not do it.
#
#   .ci/vm.sh build              makes what is on the machines, in the cache (a minute the first time)
#   .ci/vm.sh test [REGEXP]      runs the tests that need machines: Power, Clock, FullDisk, NFS (about half an hour)
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${XDG_CACHE_HOME:-$HOME/.cache}/bench-ci/vm

packages() {
  local missing=()
  for pair in linux.uml:user-mode-linux debootstrap:debootstrap ssh:openssh-client ip:iproute2; do
    command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
  done
  [ ${#missing[@]} -eq 0 ] && return
  apt-get -qq update
  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
}

root() {
  packages
  mkdir -p "$cache"
  if [ ! -d "$cache/root" ]; then
    rm -rf "$cache/root.part"
    nice debootstrap --variant=minbase \
      --include=nfs-kernel-server,nfs-common,rpcbind,nbd-client,openssh-server,iproute2,procps,kmod,e2fsprogs \
      bookworm "$cache/root.part" >"$cache/debootstrap.log" 2>&1 || { tail -n 20 "$cache/debootstrap.log"; return 1; }
    rm -rf "$cache/root.part"/var/cache/apt/archives/*.deb "$cache/root.part"/var/lib/apt/lists/* "$cache/root.part"/usr/share/{doc,man,locale}
    mkdir -p "$cache/root.part/lib/modules"
    cp -a /usr/lib/uml/modules/* "$cache/root.part/lib/modules/"
    mv "$cache/root.part" "$cache/root"
  fi
  [ -f "$cache/key" ] || ssh-keygen -q -t ed25519 -N '' -f "$cache/key"
  install -d -m 700 "$cache/root/root/.ssh"
  cp "$cache/key.pub" "$cache/root/root/.ssh/authorized_keys"
  install -m 755 .ci/vm/init "$cache/root/sbin/init-machine"
}

# What the tests run on the machines, which have it in their path.
programs() {
  export CGO_ENABLED=0
  mkdir -p "$cache/programs"
  go build -ldflags '-s -w' -o "$cache/programs/" ./cmd/bench
  go build -ldflags '-s -w' -o "$cache/programs/standin-trainer" ./runner/runnertest/standin/trainer
  for package in cmd/bench runner runner/process internal/atomicfile scoring/results; do
    go test -c -o "$cache/programs/$(basename "$package").test" "./$package"
  done
}

case ${1:-} in
  build) root && programs ;;
  test)
    root && programs
    cd cmd/bench
    # A network of their own, and an end for all machines when the test ends.
    BENCH_TEST_REQUIRE=vm BENCH_TEST_VM=$cache unshare --net --pid --fork --kill-child --mount-proc \
      "$cache/programs/bench.test" -test.count=1 -test.timeout 2h -test.v -test.run "^TestMachines(${2:-})"
    ;;
  *) sed -n '2,7p' "$0"; exit 64 ;;
esac
