#!/usr/bin/env bash
# The main job on ResNet-18: dump transformers' model where paddle is not installed, dump
# paddle.vision's where torch is not, compare where neither is. Then the same with a planted fault.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
out=${DEMO_OUT:-padiff_dump}

quiet=--quiet
if [ -t 2 ]; then quiet=; fi  # on a terminal pip shows how far it is

environment() {  # environment NAME PACKAGE...
  local folder=.venv/demo-$1
  shift
  if [ ! "$folder/.ready" -nt pyproject.toml ]; then
    echo "setting up $folder (once; some minutes): ${*:-padiff alone}" >&2
    local start=$SECONDS
    "$PYTHON" -m venv "$folder"
    for package in "$@" --editable=.; do
      # shellcheck disable=SC2086 # quiet is an option or nothing
      "$folder/bin/pip" install $quiet --no-compile --disable-pip-version-check \
        --constraint constraints.txt "$package"
    done
    touch "$folder/.ready"
    echo "set up $folder in $((SECONDS - start)) s" >&2
  fi
}
environment torch torch transformers
environment paddle paddlepaddle
environment core

say() { printf '\n$ %s\n' "$*" >&2; }
run() { say "${*##*/bin/}"; "$@"; }

run .venv/demo-torch/bin/padiff dump --model examples/resnet/torch_model.py:build \
  --inputs examples/resnet/x.npy --out "$out" --name resnet_torch --overwrite
run .venv/demo-paddle/bin/padiff dump --model examples/resnet/paddle_model.py:build \
  --inputs examples/resnet/x.npy --out "$out" --name resnet_paddle --overwrite \
  --weights-from "$out/resnet_torch"
run .venv/demo-core/bin/padiff compare "$out/resnet_torch" "$out/resnet_paddle" --atol 1e-4

say "the same with a planted fault: the epsilon of one BatchNorm is 1e-3"
run .venv/demo-paddle/bin/padiff dump --model examples/resnet/paddle_model.py:build_faulty \
  --inputs examples/resnet/x.npy --out "$out" --name resnet_faulty --overwrite \
  --weights-from "$out/resnet_torch"
status=0
run .venv/demo-core/bin/padiff compare "$out/resnet_torch" "$out/resnet_faulty" --atol 1e-4 || status=$?
if [ "$status" -ne 1 ]; then
  echo "demo: the planted fault should have given exit status 1, got $status" >&2
  exit 2
fi
