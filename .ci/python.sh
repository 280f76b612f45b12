# python_up makes two Python environments in the cache, keyed by what is in them, and sets BENCH_TEST_PYTHONS to them:
# the one that bench itself would make (containers/trainer/requirements.lock), and the old end of the supported range.

python_env() { # NAME PIP-ARGUMENTS…
  local dir=${XDG_CACHE_HOME:-$HOME/.cache}/bench-ci/python-$1
  shift
  if [ ! -e "$dir/complete" ]; then
    rm -rf "$dir"
    python3 -m venv "$dir"
    "$dir/bin/pip" install --quiet --disable-pip-version-check "$@"
    touch "$dir/complete"
  fi
  echo "$dir/bin/python"
}

python_up() {
  local lock=containers/trainer/requirements.lock key new old
  key=$(sha256sum "$lock" | cut -c1-12)
  new=$(python_env "$key" -r "$lock")
  old=$(python_env torch2.2.2-transformers4.44.2 "torch==2.2.2" "transformers==4.44.2" "numpy<2" safetensors sentencepiece "protobuf<5")
  export BENCH_TEST_PYTHONS=$new:$old
}
