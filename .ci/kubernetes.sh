#!/usr/bin/env bash
# A real Kubernetes on this machine, for tests: etcd, API server, controllers, scheduler, and two nodes, each with a
# containerd and a kubelet of its own, pretended GPUs and a common volume; and an object store. Its programs are built
# from their Go modules, which takes about 13 minutes on two cores the first time; that is why .ci/run does not do it.
# Root on Debian 12, cgroup v1 or v2.
#
#   .ci/kubernetes.sh build           makes the programs, in the cache
#   .ci/kubernetes.sh up DIR          starts a cluster in DIR, a new folder
#   .ci/kubernetes.sh load DIR IMAGE  puts an image of the Docker engine on its nodes
#   .ci/kubernetes.sh lose DIR N      kills node N with everything on it; "find DIR N" starts it again
#   .ci/kubernetes.sh down DIR        stops the cluster and removes DIR
#   .ci/kubernetes.sh test            all of that, with the tests that need a cluster in between
set -euo pipefail
cd "$(dirname "$0")/.."
version=1.33.13 etcd_version=3.6.5
cache=${XDG_CACHE_HOME:-$HOME/.cache}/bench-ci/kubernetes-$version
port=26443 etcd_port=22379 store_port=27070

build() {
  mkdir -p "$cache"
  if [ ! -x "$cache/etcd" ]; then
    local dir; dir=$(mktemp -d)
    cp .ci/kubernetes/etcd.go.in "$dir/main.go"
    printf 'module etcd\n\ngo 1.26\n\nrequire go.etcd.io/etcd/server/v3 v%s\n' "$etcd_version" >"$dir/go.mod"
    (cd "$dir" && go mod tidy && nice -n 19 go build -trimpath -ldflags '-s -w' -o "$cache/etcd" .)
    rm -rf "$dir"
  fi
  if [ ! -x "$cache/kube" ]; then
    local dir mod; dir=$(mktemp -d)
    cp .ci/kubernetes/kube.go.in "$dir/main.go"
    mod=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
    # The module replaces its parts by folders that only its repository has.
    { printf 'module kube\n\ngo 1.26\n\nrequire k8s.io/kubernetes v%s\n\n' "$version"
      sed -n "s#^\s*\(k8s.io/[a-z0-9-]*\) => ./staging.*#replace \1 => \1 v0.${version#1.}#p" "$mod"; } >"$dir/go.mod"
    (cd "$dir" && go mod tidy && nice -n 19 go build -trimpath -tags netgo -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=v$version" -o "$cache/kube" .)
    rm -rf "$dir"
  fi
  [ -x "$cache/versitygw" ] || GOBIN="$cache" nice -n 19 go install -trimpath -ldflags '-s -w' github.com/versity/versitygw/cmd/versitygw@v1.8.0
  if [ ! -x "$cache/pause" ]; then
    local dir; dir=$(mktemp -d)
    cp .ci/kubernetes/pause.go.in "$dir/main.go"
    CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$cache/pause" "$dir/main.go"
    rm -rf "$dir"
  fi
}

# background NAME COMMAND… starts it with its log and process id in DIR.
background() {
  local name=$1; shift
  setsid nohup "$@" </dev/null >>"$dir/$name.log" 2>&1 &
  echo $! >"$dir/$name.pid"
}

until_true() { # SECONDS COMMAND…
  local n=$(( $1 * 5 )); shift
  for _ in $(seq "$n"); do "$@" >/dev/null 2>&1 && return; sleep 0.2; done
  echo "not true in time: $*" >&2
  return 1
}

kubectl_() { kubectl --kubeconfig "$dir/kubeconfig" "$@"; }

up() {
  mkdir -p "$dir"/{etcd,pki,run,volume}
  packages
  tar -C "$cache" -c pause | docker import --change 'ENTRYPOINT ["/pause"]' - bench-pause:test >/dev/null
  background etcd "$cache/etcd" --data-dir "$dir/etcd" --unsafe-no-fsync --listen-client-urls "http://127.0.0.1:$etcd_port" \
    --advertise-client-urls "http://127.0.0.1:$etcd_port" --listen-peer-urls http://127.0.0.1:22380
  # Pods reach it as they do the rest of the machine.
  mkdir -p "$dir/store/work"
  background store "$cache/versitygw" --access lab --secret lab-secret --region lab --port ":$store_port" posix "$dir/store"
  echo "http://$(hostname -I | cut -d' ' -f1):$store_port" >"$dir/store.endpoint"
  openssl genrsa -out "$dir/pki/sa.key" 2048 2>/dev/null
  # An administrator, and a user who may only do what bench needs (see docs/manual.md).
  printf 'admin-secret,admin,1,system:masters\nuser-secret,bench-user,2\n' >"$dir/pki/tokens.csv"
  background apiserver "$cache/kube" kube-apiserver --etcd-servers "http://127.0.0.1:$etcd_port" --cert-dir "$dir/pki" --secure-port "$port" \
    --bind-address 127.0.0.1 --service-cluster-ip-range 10.97.0.0/16 --kubelet-preferred-address-types InternalIP --token-auth-file "$dir/pki/tokens.csv" --authorization-mode RBAC \
    --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$dir/pki/sa.key" --service-account-signing-key-file "$dir/pki/sa.key"
  local user
  for user in admin user; do
    printf '{"apiVersion":"v1","kind":"Config","current-context":"lab","clusters":[{"name":"lab","cluster":{"server":"https://127.0.0.1:%s","insecure-skip-tls-verify":true}}],
"users":[{"name":"%s","user":{"token":"%s-secret"}}],"contexts":[{"name":"lab","context":{"cluster":"lab","user":"%s","namespace":"lab"}}]}' "$port" "$user" "$user" "$user" >"$dir/kubeconfig-$user"
  done
  ln -sf kubeconfig-admin "$dir/kubeconfig"
  until_true 60 kubectl_ get --raw /readyz
  background controllers "$cache/kube" kube-controller-manager --kubeconfig "$dir/kubeconfig" --service-account-private-key-file "$dir/pki/sa.key" --leader-elect=false \
    --node-monitor-grace-period 20s --node-monitor-period 2s
  background scheduler "$cache/kube" kube-scheduler --kubeconfig "$dir/kubeconfig" --leader-elect=false
  trainer
  node 1
  node 2
  until_true 60 kubectl_ get namespace default
  objects
  ready
  pretend
  until_true 30 kubectl_ -n lab get serviceaccount default
  image
}

# trainer lets containers of runtime class "trainer" see the files of the Docker engine's newest trainer image, if there is
# one: loading it would take its 6 GB twice. $dir/trainer.image has its name.
trainer() {
  local image layers
  echo '{}' >"$dir/trainer.json"
  image=$(docker image ls --format '{{.Repository}}:{{.Tag}}' bench-trainer | head -n 1)
  [ -n "$image" ] || return 0
  layers=$(docker image inspect --format '{{.GraphDriver.Data.UpperDir}}:{{.GraphDriver.Data.LowerDir}}' "$image")
  mkdir -p "$dir/trainer"
  mount -t overlay -o "ro,lowerdir=$layers" overlay "$dir/trainer" || return 0
  ctr oci spec | python3 -c 'import json, sys
spec = json.load(sys.stdin)
spec["mounts"].append({"destination": "/opt/bench", "type": "bind", "source": sys.argv[1] + "/opt/bench", "options": ["rbind", "ro"]})
json.dump(spec, sys.stdout)' "$dir/trainer" >"$dir/trainer.json"
  echo "$image" >"$dir/trainer.image"
}

# pretend gives the nodes GPUs that they do not have.
pretend() {
  gpus node-1 nvidia.com 2
  gpus node-2 example.org 1
}

# gpus NODE VENDOR N makes a node pretend that it has GPUs.
gpus() {
  kubectl_ patch node "$1" --subresource=status --type=json -p '[{"op":"add","path":"/status/capacity/'"$2"'~1gpu","value":"'"$3"'"}]' >/dev/null
  until_true 30 sh -c "kubectl --kubeconfig '$dir/kubeconfig' get node '$1' -o jsonpath='{.status.allocatable.${2/./\\.}/gpu}' | grep -q '$3'"
}

# image puts trainers on the nodes: package stub, with the tools of a Debian, package standin, and what the real one needs
# beside the files that trainer shows it.
image() {
  local context name; context=$(mktemp -d)
  for name in stubtrainer standin/trainer; do CGO_ENABLED=0 go build -trimpath -o "$context/${name%%/*}.bin" "./runner/runnertest/$name"; done
  printf 'FROM bench-base:trixie\nCOPY stubtrainer.bin /trainer\nENTRYPOINT ["/trainer"]\n' >"$context/Dockerfile"
  docker build -q -t bench-test-kubetrainer:test "$context" >/dev/null
  printf 'FROM bench-base:trixie\nCOPY standin.bin /trainer\nENTRYPOINT ["/trainer"]\n' >"$context/Dockerfile"
  docker build -q -t bench-test-kubestandin:test "$context" >/dev/null
  printf 'FROM bench-base:trixie\nRUN mkdir /opt/bench\nENV PYTHONPATH=/opt/bench/src\nENTRYPOINT ["/opt/bench/bin/python", "-m", "bench_trainer"]\n' >"$context/Dockerfile"
  docker build -q -t bench-test-kubetorch:test "$context" >/dev/null
  rm -rf "$context"
  load bench-test-kubetrainer:test
  load bench-test-kubestandin:test
  load bench-test-kubetorch:test
}

packages() {
  [ -d /usr/lib/cni ] && command -v containerd kubectl openssl docker >/dev/null && return
  apt-get -qq update
  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends containernetworking-plugins containerd openssl >/dev/null
  command -v kubectl >/dev/null || { echo "kubectl is not there: https://kubernetes.io/docs/tasks/tools/" >&2; return 1; }
}

# cgroup_roots lists the folders in which node N's pods have their cgroups, one for each hierarchy.
cgroup_roots() {
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then echo "/sys/fs/cgroup/bench-node-$1"; return; fi
  local h
  for h in /sys/fs/cgroup/*/; do [ -L "${h%/}" ] || echo "${h}bench-node-$1"; done
}

# node N starts a node.
node() {
  local n=$1 c k
  mkdir -p "$dir/node-$n"/{cni,kubelet,containerd}
  for c in $(cgroup_roots "$n"); do
    mkdir -p "$c"
    for k in cpuset.cpus cpuset.mems; do [ ! -e "$c/$k" ] || cat "$c/../$k" >"$c/$k" || true; done
  done
  cat >"$dir/node-$n/containerd.toml" <<EOF
version = 2
root = "$dir/node-$n/containerd"
state = "$dir/run/containerd-$n"
[grpc]
  address = "$dir/run/containerd-$n.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/library/bench-pause:test"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.trainer]
    runtime_type = "io.containerd.runc.v2"
    base_runtime_spec = "$dir/trainer.json"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$dir/node-$n/cni"
EOF
  cat >"$dir/node-$n/cni/10-bridge.conflist" <<EOF
{"cniVersion":"0.4.0","name":"lab-$n","plugins":[{"type":"bridge","bridge":"benchk8s$n","isGateway":true,"isDefaultGateway":true,"ipMasq":false,
 "ipam":{"type":"host-local","ranges":[[{"subnet":"10.98.$n.0/24"}]],"dataDir":"$dir/run/ipam-$n"}}]}
EOF
  # With the usual folder of logs each kubelet would remove those of the other's pods.
  cat >"$dir/node-$n/kubelet.yaml" <<EOF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://$dir/run/containerd-$n.sock
cgroupDriver: cgroupfs
cgroupRoot: /bench-node-$n
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
makeIPTablesUtilChains: false
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
podLogsDir: $dir/node-$n/log
port: 2125$n
healthzPort: 2124$n
nodeStatusUpdateFrequency: 4s
nodeLeaseDurationSeconds: 12
EOF
  # The kubelet writes some settings of the kernel: it gets look-alikes, in a mount namespace that it shares with
  # containerd, and the machine's stay as they are.
  cat >"$dir/node-$n/start.sh" <<EOF
mount --make-rshared /
for f in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
  copy="$dir/node-$n/\$(echo \$f | tr / -)"
  cat /proc/sys/\$f >"\$copy" && mount --bind "\$copy" /proc/sys/\$f
done
containerd --config "$dir/node-$n/containerd.toml" >>"$dir/containerd-$n.log" 2>&1 &
echo \$! >"$dir/containerd-$n.pid"
for _ in \$(seq 100); do ctr --address "$dir/run/containerd-$n.sock" version >/dev/null 2>&1 && break; sleep 0.1; done
docker save bench-pause:test | ctr --address "$dir/run/containerd-$n.sock" -n k8s.io images import - >/dev/null
exec "$cache/kube" kubelet --config "$dir/node-$n/kubelet.yaml" --kubeconfig "$dir/kubeconfig" --root-dir "$dir/node-$n/kubelet" --hostname-override node-$n
EOF
  background "kubelet-$n" unshare -m bash -e "$dir/node-$n/start.sh"
}

ready() { until_true 90 kubectl_ wait --for=condition=Ready node/node-1 node/node-2 --timeout=1s; }

# found N starts a node that was lost.
found() {
  ! kill -0 "$(cat "$dir/kubelet-$1.pid")" 2>/dev/null || return 0
  node "$1"
  sleep 2
  ready
  pretend
}

# lose N kills a node and everything that runs on it.
lose() {
  local n=$1 id
  for id in kubelet containerd; do kill -KILL "$(cat "$dir/$id-$n.pid")" 2>/dev/null || true; done
  for id in $(pgrep -f -- "containerd-shim.*$dir/run/containerd-$n.sock" || true); do kill -KILL "$id" 2>/dev/null || true; done
  for id in $(cgroup_roots "$n"); do
    find "$id" -name cgroup.procs -exec cat {} + 2>/dev/null || true
  done | sort -u | while read -r id; do kill -KILL "$id" 2>/dev/null || true; done
}

objects() {
  chmod 777 "$dir/volume"
  kubectl_ create -f - >/dev/null <<EOF
{"apiVersion":"v1","kind":"List","items":[
 {"apiVersion":"v1","kind":"Namespace","metadata":{"name":"lab","labels":{"pod-security.kubernetes.io/enforce":"restricted"}}},
 {"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"work"},"spec":{"capacity":{"storage":"10Gi"},"accessModes":["ReadWriteMany"],
  "persistentVolumeReclaimPolicy":"Retain","storageClassName":"","hostPath":{"path":"$dir/volume"},"claimRef":{"namespace":"lab","name":"work"}}},
 {"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"work","namespace":"lab"},"spec":{"accessModes":["ReadWriteMany"],
  "storageClassName":"","volumeName":"work","resources":{"requests":{"storage":"10Gi"}}}},
 {"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"trainer","namespace":"lab"}},
 {"apiVersion":"v1","kind":"Service","metadata":{"name":"work","namespace":"lab"},"spec":{"ports":[{"port":80}]}},
 {"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"low"},"value":-1},
 {"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"high"},"value":1000},
 {"apiVersion":"node.k8s.io/v1","kind":"RuntimeClass","metadata":{"name":"nvidia"},"handler":"runc"},
 {"apiVersion":"node.k8s.io/v1","kind":"RuntimeClass","metadata":{"name":"trainer"},"handler":"trainer"},
 {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"bench","namespace":"lab"},"rules":[
  {"apiGroups":["batch"],"resources":["jobs"],"verbs":["get","list","create","delete"]},
  {"apiGroups":[""],"resources":["pods"],"verbs":["get","list","create","delete"]},
  {"apiGroups":[""],"resources":["pods/log","events","persistentvolumeclaims"],"verbs":["get","list"]},
  {"apiGroups":[""],"resources":["pods/exec"],"verbs":["create","get"]},
  {"apiGroups":[""],"resources":["secrets"],"verbs":["create"]},
  {"apiGroups":["networking.k8s.io"],"resources":["networkpolicies"],"verbs":["create","delete"]}]},
 {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"bench","namespace":"lab"},
  "roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"bench"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"bench-user"}]}
]}
EOF
}

load() {
  local n
  for n in 1 2; do docker save "$1" | ctr --address "$dir/run/containerd-$n.sock" -n k8s.io images import - >/dev/null; done
}

down() {
  [ -e "$dir/apiserver.pid" ] || { echo "no cluster in $dir" >&2; return 1; }
  local name m n
  kubectl_ -n lab delete jobs,pods --all --grace-period=1 --timeout=20s >/dev/null 2>&1 || true
  for name in scheduler controllers apiserver etcd store; do kill -KILL "$(cat "$dir/$name.pid")" 2>/dev/null || true; done
  for n in 1 2; do
    lose "$n"
    ip link delete "benchk8s$n" 2>/dev/null || true
  done
  sleep 1
  { grep -o " $dir[^ ]*" /proc/mounts || true; } | sort -r | while read -r m; do umount -l "$m" 2>/dev/null || true; done
  for name in $(ip netns list 2>/dev/null | sed -n 's/^\(cni-[^ ]*\).*/\1/p'); do ip netns delete "$name" 2>/dev/null || true; done
  for n in 1 2; do for m in $(cgroup_roots "$n"); do find "$m" -depth -type d -exec rmdir {} + 2>/dev/null || true; done; done
  rm -rf "$dir"
}

dir=$(realpath -m "${2:-.}")
case ${1:-} in
  build) build ;;
  up) build; : "${2:?up DIR}"; up ;;
  load) load "${3:?load DIR IMAGE}" ;;
  lose) lose "${3:?lose DIR N}" ;;
  find) found "${3:?find DIR N}" ;;
  down) : "${2:?down DIR}"; down ;;
  test)
    build
    . .ci/engine.sh
    engine_up
    dir=$(mktemp -d)
    trap down EXIT
    up
    BENCH_TEST_REQUIRE=kubernetes BENCH_TEST_KUBERNETES="$dir" go test -count=1 -timeout 60m -p 1 ./runner/kubernetes ./cmd/bench -run 'Real(Contract|Manifests|Ends|Nodes|Store|Sweep|Trainer)' -v
    ;;
  *) sed -n '2,13p' "$0"; exit 64 ;;
esac
