#!/usr/bin/env bash
# A real Kubernetes on this machine, for tests: etcd, API server, controllers, scheduler, and one node (containerd,
# kubelet) with two pretended GPUs and a volume. Its programs are built from their Go modules, which takes about 11
# minutes on two cores the first time; that is why .ci/run does not do it. Root on Debian 12, cgroup v1 or v2.
#
#   .ci/kubernetes.sh build        makes the programs, in the cache
#   .ci/kubernetes.sh up DIR       starts a cluster in DIR, a new folder
#   .ci/kubernetes.sh down DIR     stops it and removes DIR
#   .ci/kubernetes.sh test         all of that, with the tests that need a cluster in between
set -euo pipefail
cd "$(dirname "$0")/.."
version=1.33.13 etcd_version=3.6.5
cache=${XDG_CACHE_HOME:-$HOME/.cache}/bench-ci/kubernetes-$version
port=26443 etcd_port=22379

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
  dir=$(realpath -m "$1")
  mkdir -p "$dir"/{etcd,pki,cni,kubelet,containerd,run,volume}
  packages
  background etcd "$cache/etcd" --data-dir "$dir/etcd" --unsafe-no-fsync --listen-client-urls "http://127.0.0.1:$etcd_port" \
    --advertise-client-urls "http://127.0.0.1:$etcd_port" --listen-peer-urls http://127.0.0.1:22380
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
  background controllers "$cache/kube" kube-controller-manager --kubeconfig "$dir/kubeconfig" --service-account-private-key-file "$dir/pki/sa.key" --leader-elect=false
  background scheduler "$cache/kube" kube-scheduler --kubeconfig "$dir/kubeconfig" --leader-elect=false
  node
  until_true 60 kubectl_ get namespace default
  objects
  until_true 90 kubectl_ wait --for=condition=Ready node/node-1 --timeout=1s
  kubectl_ patch node node-1 --subresource=status --type=json -p '[{"op":"add","path":"/status/capacity/nvidia.com~1gpu","value":"2"}]' >/dev/null
  until_true 30 sh -c "kubectl --kubeconfig '$dir/kubeconfig' get node node-1 -o jsonpath='{.status.allocatable.nvidia\.com/gpu}' | grep -q 2"
  until_true 30 kubectl_ -n lab get serviceaccount default
  image
}

# image puts two trainers on the node: package stub, with the tools of a Debian, and package standin.
image() {
  local context name; context=$(mktemp -d)
  for name in stubtrainer standin/trainer; do CGO_ENABLED=0 go build -trimpath -o "$context/${name%%/*}.bin" "./runner/runnertest/$name"; done
  printf 'FROM bench-base:trixie\nCOPY stubtrainer.bin /trainer\nENTRYPOINT ["/trainer"]\n' >"$context/Dockerfile"
  docker build -q -t bench-test-kubetrainer:test "$context" >/dev/null
  printf 'FROM bench-base:trixie\nCOPY standin.bin /trainer\nENTRYPOINT ["/trainer"]\n' >"$context/Dockerfile"
  docker build -q -t bench-test-kubestandin:test "$context" >/dev/null
  rm -rf "$context"
  load "$dir" bench-test-kubetrainer:test
  load "$dir" bench-test-kubestandin:test
}

packages() {
  [ -d /usr/lib/cni ] && command -v containerd kubectl openssl docker >/dev/null && return
  apt-get -qq update
  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends containernetworking-plugins containerd openssl >/dev/null
  command -v kubectl >/dev/null || { echo "kubectl is not there: https://kubernetes.io/docs/tasks/tools/" >&2; return 1; }
}

node() {
  cat >"$dir/containerd.toml" <<EOF
version = 2
root = "$dir/containerd"
state = "$dir/run/containerd"
[grpc]
  address = "$dir/run/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/library/bench-pause:test"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$dir/cni"
EOF
  cat >"$dir/cni/10-bridge.conflist" <<EOF
{"cniVersion":"0.4.0","name":"lab","plugins":[{"type":"bridge","bridge":"benchk8s0","isGateway":true,"ipMasq":false,
 "ipam":{"type":"host-local","ranges":[[{"subnet":"10.98.0.0/24"}]],"dataDir":"$dir/run/ipam"}}]}
EOF
  cat >"$dir/kubelet.yaml" <<EOF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://$dir/run/containerd.sock
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
makeIPTablesUtilChains: false
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
port: 21250
healthzPort: 21248
nodeStatusUpdateFrequency: 4s
EOF
  # The kubelet writes some settings of the kernel: it gets look-alikes, in a mount namespace that it shares with
  # containerd, and the machine's stay as they are.
  cat >"$dir/node.sh" <<EOF
mount --make-rshared /
for f in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
  copy="$dir/run/\$(echo \$f | tr / -)"
  cat /proc/sys/\$f >"\$copy" && mount --bind "\$copy" /proc/sys/\$f
done
containerd --config "$dir/containerd.toml" >>"$dir/containerd.log" 2>&1 &
echo \$! >"$dir/containerd.pid"
for _ in \$(seq 100); do ctr --address "$dir/run/containerd.sock" version >/dev/null 2>&1 && break; sleep 0.1; done
tar -C "$cache" -c pause | docker import --change 'ENTRYPOINT ["/pause"]' - bench-pause:test >/dev/null
docker save bench-pause:test | ctr --address "$dir/run/containerd.sock" -n k8s.io images import - >/dev/null
exec "$cache/kube" kubelet --config "$dir/kubelet.yaml" --kubeconfig "$dir/kubeconfig" --root-dir "$dir/kubelet" --hostname-override node-1
EOF
  background kubelet unshare -m bash -e "$dir/node.sh"
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
 {"apiVersion":"node.k8s.io/v1","kind":"RuntimeClass","metadata":{"name":"nvidia"},"handler":"runc"},
 {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"bench","namespace":"lab"},"rules":[
  {"apiGroups":["batch"],"resources":["jobs"],"verbs":["get","list","create","delete"]},
  {"apiGroups":[""],"resources":["pods"],"verbs":["get","list","create","delete"]},
  {"apiGroups":[""],"resources":["pods/log","events","persistentvolumeclaims"],"verbs":["get","list"]},
  {"apiGroups":[""],"resources":["pods/exec"],"verbs":["create","get"]},
  {"apiGroups":["networking.k8s.io"],"resources":["networkpolicies"],"verbs":["create","delete"]}]},
 {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"bench","namespace":"lab"},
  "roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"bench"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"bench-user"}]}
]}
EOF
}

# load IMAGE puts an image of the Docker engine on the node.
load() {
  dir=$(realpath "$1")
  docker save "$2" | ctr --address "$dir/run/containerd.sock" -n k8s.io images import - >/dev/null
}

down() {
  dir=$(realpath "$1")
  [ -e "$dir/kubelet.pid" ] || { echo "no cluster in $dir" >&2; return 1; }
  local name
  kubectl_ -n lab delete jobs,pods --all --grace-period=1 --timeout=20s >/dev/null 2>&1 || true
  for name in kubelet scheduler controllers apiserver; do kill -KILL "$(cat "$dir/$name.pid")" 2>/dev/null || true; done
  local socket="$dir/run/containerd.sock" id
  if [ -S "$socket" ]; then
    for id in $(ctr --address "$socket" -n k8s.io tasks ls -q 2>/dev/null); do
      ctr --address "$socket" -n k8s.io tasks rm -f "$id" >/dev/null 2>&1 || true
    done
  fi
  for name in containerd etcd; do kill -KILL "$(cat "$dir/$name.pid")" 2>/dev/null || true; done
  sleep 1
  # Shims of sandboxes that containerd did not see end.
  for id in $(pgrep -f -- "containerd-shim.*$dir/run/containerd.sock" || true); do kill -KILL "$id" 2>/dev/null || true; done
  { grep -o " $dir[^ ]*" /proc/mounts || true; } | sort -r | while read -r m; do umount -l "$m" 2>/dev/null || true; done
  ip link delete benchk8s0 2>/dev/null || true
  for id in $(ip netns list 2>/dev/null | sed -n 's/^\(cni-[^ ]*\).*/\1/p'); do ip netns delete "$id" 2>/dev/null || true; done
  rm -rf "$dir"
}

case ${1:-} in
  build) build ;;
  up) build; up "${2:?up DIR}" ;;
  down) down "${2:?down DIR}" ;;
  load) load "${2:?load DIR IMAGE}" "${3:?load DIR IMAGE}" ;;
  test)
    build
    . .ci/engine.sh
    engine_up
    lab=$(mktemp -d)
    trap 'down "$lab"' EXIT
    up "$lab"
    BENCH_TEST_REQUIRE=kubernetes BENCH_TEST_KUBERNETES="$lab" go test -count=1 -timeout 40m -p 1 ./runner/kubernetes ./cmd/bench -run 'Real(Contract|Manifests|Ends|Sweep)' -v
    ;;
  *) sed -n '2,10p' "$0"; exit 64 ;;
esac
