# engine_up makes a Docker engine answer on the default socket and sets BENCH_TEST_BASE to a Debian image with Python,
# made from the distribution's packages, so that no image registry is needed. It installs what it needs and can be
# called again at no cost.

engine_packages() {
  local missing=()
  for pair in dockerd:docker.io iptables:iptables debootstrap:debootstrap; do
    command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
  done
  [ ${#missing[@]} -eq 0 ] && return
  apt-get -qq update
  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
}

engine_up() {
  local state=/run/bench-ci cache=${XDG_CACHE_HOME:-$HOME/.cache}/bench-ci
  mkdir -p "$state" "$cache"
  engine_packages
  if ! timeout 10 docker version >/dev/null 2>&1; then
    setsid nohup dockerd --pidfile "$state/dockerd.pid" </dev/null >>"$state/dockerd.log" 2>&1 &
    for _ in $(seq 300); do
      timeout 5 docker version >/dev/null 2>&1 && break
      sleep 0.1
    done
    docker version >/dev/null || { tail -n 20 "$state/dockerd.log"; return 1; }
  fi
  export BENCH_TEST_BASE=bench-base:trixie
  docker image inspect "$BENCH_TEST_BASE" >/dev/null 2>&1 && return
  if [ ! -s "$cache/base.tar" ]; then
    local root
    root=$(mktemp -d "$cache/root.XXXXXX")
    debootstrap --variant=minbase --include=python3,python3-venv,python3-pip,ca-certificates trixie "$root" >"$cache/debootstrap.log" 2>&1 \
      || { tail -n 20 "$cache/debootstrap.log"; return 1; }
    cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" # a site's own authority is in here
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
    tar -C "$root" -cf "$cache/base.tar.part" .
    mv "$cache/base.tar.part" "$cache/base.tar"
    rm -rf "$root"
  fi
  docker import --change 'CMD ["bash"]' "$cache/base.tar" "$BENCH_TEST_BASE" >/dev/null
}
